//! The contract against every released one: what was there is still there, unchanged.

use anyhow::{Context, Result, ensure};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, MethodDescriptorProto,
};
use std::{collections::BTreeMap, fs, path::Path};

const CONTRACT: &str = "valkey/operator/v1/line.proto";

#[test]
fn nothing_that_was_released_is_broken() -> Result<()> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let now = facts(&proto)?;
    let mut compared = 0;
    for released in fs::read_dir(proto.join("released"))? {
        let released = released?.path();
        let broken = broken(&facts(&released)?, &now);
        ensure!(broken.is_empty(), "{} is broken:\n{}", released.display(), broken.join("\n"));
        compared += 1;
    }
    ensure!(compared > 0, "there is no released contract to compare with");
    Ok(())
}

/// Each change to a small contract, and what the comparison must say about it.
#[test]
fn every_kind_of_breaking_change_is_noticed() -> Result<()> {
    let before = "syntax = \"proto3\"; package p; service S { rpc A(M) returns (stream M); }
        enum E { E_UNSPECIFIED = 0; E_ONE = 1; }
        message M { string a = 1; repeated uint32 b = 2; oneof o { string c = 3; uint32 d = 4; } E e = 5; message N { bool x = 1; } }";
    let changes = [
        ("string a = 1;", "", "M.1"),
        ("string a = 1;", "string renamed = 1;", "M.1"),
        ("string a = 1;", "bytes a = 1;", "M.1"),
        ("string a = 1;", "string a = 6;", "M.1"),
        ("string a = 1;", "optional string a = 1;", "M.1"),
        ("repeated uint32 b = 2;", "uint32 b = 2;", "M.2"),
        ("oneof o { string c = 3; uint32 d = 4; }", "string c = 3; oneof o { uint32 d = 4; }", "M.3"),
        ("E_ONE = 1;", "", "E.1"),
        ("E_ONE = 1;", "E_TWO = 1;", "E.1"),
        ("rpc A(M) returns (stream M);", "", "S.A"),
        ("returns (stream M)", "returns (M)", "S.A"),
        ("rpc A(M)", "rpc A(stream M)", "S.A"),
        ("message N { bool x = 1; }", "", "M.N.1"),
        ("package p;", "package q;", "package"),
    ];
    let kept = text_facts(before)?;
    for (from, to, named) in changes {
        let after = text_facts(&before.replace(from, to))?;
        let broken = broken(&kept, &after);
        ensure!(broken.iter().any(|line| line.contains(named)), "`{from}` → `{to}` went unnoticed: {broken:?}");
    }
    Ok(())
}

#[test]
fn additions_are_no_break() -> Result<()> {
    let before = "syntax = \"proto3\"; package p; message M { oneof o { string a = 1; } }";
    let after = "syntax = \"proto3\"; package p; message M { oneof o { string a = 1; bool b = 2; } uint32 c = 3; } message N {}";
    let broken = broken(&text_facts(before)?, &text_facts(after)?);
    ensure!(broken.is_empty(), "{broken:?}");
    Ok(())
}

/// What the other end relies on: place → what is there.
type Facts = BTreeMap<String, String>;

fn broken(before: &Facts, now: &Facts) -> Vec<String> {
    let changed = before.iter().filter(|(place, fact)| now.get(*place) != Some(fact));
    changed.map(|(place, fact)| format!("{place}: was {fact}, is {:?}", now.get(place))).collect()
}

fn text_facts(text: &str) -> Result<Facts> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join(CONTRACT);
    fs::create_dir_all(file.parent().context("a file has a folder")?)?;
    fs::write(&file, text)?;
    facts(folder.path())
}

fn facts(root: &Path) -> Result<Facts> {
    let set = protox::compile([CONTRACT], [root]).with_context(|| format!("{} does not compile", root.display()))?;
    let mut facts = Facts::new();
    set.file.iter().for_each(|file| of_file(file, &mut facts));
    Ok(facts)
}

fn of_file(file: &FileDescriptorProto, facts: &mut Facts) {
    facts.insert("package".into(), file.package().into());
    file.message_type.iter().for_each(|message| of_message("", message, facts));
    file.enum_type.iter().for_each(|one| of_enum("", one, facts));
    for service in &file.service {
        for method in &service.method {
            facts.insert(format!("{}.{}", service.name(), method.name()), of_method(method));
        }
    }
}

fn of_message(path: &str, message: &DescriptorProto, facts: &mut Facts) {
    let name = format!("{path}{}", message.name());
    facts.insert(format!("message {name}"), "a message".into());
    for field in &message.field {
        facts.insert(format!("{name}.{}", field.number()), of_field(field, message));
    }
    message.nested_type.iter().for_each(|nested| of_message(&format!("{name}."), nested, facts));
    message.enum_type.iter().for_each(|nested| of_enum(&format!("{name}."), nested, facts));
}

fn of_field(field: &FieldDescriptorProto, message: &DescriptorProto) -> String {
    let oneof = field.oneof_index.and_then(|index| message.oneof_decl.get(usize::try_from(index).ok()?));
    let oneof = oneof.map(|oneof| oneof.name().to_owned());
    format!("{} {:?} {:?} {} {oneof:?}", field.name(), field.label(), field.r#type(), field.type_name())
}

fn of_enum(path: &str, one: &EnumDescriptorProto, facts: &mut Facts) {
    for value in &one.value {
        facts.insert(format!("{path}{}.{}", one.name(), value.number()), value.name().into());
    }
}

fn of_method(method: &MethodDescriptorProto) -> String {
    let stream = |streaming: bool| if streaming { "stream " } else { "" };
    let (from, to) = (stream(method.client_streaming()), stream(method.server_streaming()));
    format!("({from}{}) → ({to}{})", method.input_type(), method.output_type())
}
