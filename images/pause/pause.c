/* Holds a pod's namespaces open: sleeps until told to stop, and leaves no zombies where a pod shares its process namespace. */
#include <signal.h>
#include <unistd.h>

static void stop(int signal_number) {
    (void)signal_number;
    _exit(0);
}

int main(void) {
    struct sigaction ending = {.sa_handler = stop};
    struct sigaction reaping = {.sa_handler = SIG_IGN, .sa_flags = SA_NOCLDWAIT};
    if (sigaction(SIGTERM, &ending, 0) || sigaction(SIGINT, &ending, 0) || sigaction(SIGCHLD, &reaping, 0)) return 1;
    for (;;) pause();
}
