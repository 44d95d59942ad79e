/* A module that does nothing: it gives its name and takes one argument at most. Two functions of the module API are all it needs, and
   no libc, so that it can be loaded into servers built against another. */
typedef int (*get_api)(const char *name, void *target);

int ValkeyModule_OnLoad(void *context, void **arguments, int count) {
    get_api get = (get_api)(*(void **)context);
    void (*set_attributes)(void *context, const char *name, int version, int api);
    (void)arguments;
    if (get("ValkeyModule_SetModuleAttribs", (void *)&set_attributes) != 0) return 1;
    set_attributes(context, "tiny", 10203, 1);
    return count > 1;
}
