//! A directory of sixty skills as other people write them, made from the small corpus.

use super::project::Project;
use super::support::data;

/// The files of the corpus that public skills look like, good and bad.
const SKILLS: [&str; 60] = [
    "argument-hint-brackets",
    "argument-hint-pipe",
    "baseline-absent",
    "baseline-comma",
    "baseline-empty-list",
    "baseline-empty-string",
    "baseline-list-block",
    "baseline-list-flow",
    "baseline-null",
    "baseline-space",
    "baseline-tilde-null",
    "both-tools-and-allowed-tools-disagree",
    "close-fence-missing",
    "close-fence-text-after",
    "context-fork-agent",
    "crlf",
    "desc-1025",
    "desc-missing",
    "desc-not-string",
    "disallowed-only",
    "empty-body",
    "html-comment-before-fence",
    "key-Allowed-Tools",
    "key-allowedTools",
    "key-allowed_tools",
    "key-tools-only",
    "memory-field",
    "mixed-eol",
    "name-mismatch",
    "name-missing",
    "open-fence-trailing-space",
    "tok-Glob-foreign",
    "tok-Task-agent",
    "tok-backtick",
    "tok-bash-prefix",
    "tok-bash-space-in-parens",
    "tok-double-comma",
    "tok-leading-comma",
    "tok-mcp-any",
    "tok-mcp-exact",
    "tok-mixed-separators",
    "tok-multiword-names",
    "tok-namespaced-ok",
    "tok-path-scope",
    "tok-prose",
    "tok-quoted-inside",
    "tok-single-quoted",
    "tok-skill-arg",
    "tok-star",
    "tok-trailing-comma",
    "tok-two-quoted",
    "tok-unbalanced-open",
    "tok-webfetch-domain",
    "type-list-item-empty",
    "type-list-item-two-tokens",
    "type-list-with-null",
    "type-map",
    "type-nested-list",
    "type-string-looking-like-list",
    "unquoted-colon-desc",
];

/// Writes them to `pack/NAME/SKILL.md` of a project.
pub(crate) fn make(project: &Project) {
    for skill in SKILLS {
        let content = std::fs::read(data(&format!("corpus/min/{skill}/probe/SKILL.md"))).unwrap();
        project.write(&format!("pack/{skill}/SKILL.md"), content);
    }
}

#[test]
fn each_is_spawnable_in_the_end_or_refused_with_a_fix() {
    let project = Project::new();
    make(&project);
    project.write("policy.yaml", "version: 1\ngrant: [tool:read]\n");
    let states = || {
        let (_, reports) = project.json_lines(&["--policy", "policy.yaml", "check", "pack"]);
        let of = |state| reports.iter().filter(|report| report["state"] == state).count();
        let stuck = reports.iter().filter(|report| report["state"] == "refused" && report["fix"].is_null());
        let stuck: Vec<_> = stuck.map(|report| report["path"].clone()).collect();
        assert!(stuck.is_empty(), "no fix is named for {stuck:?}");
        [of("spawnable"), of("undeclared"), of("refused")]
    };
    let mut steps = vec![states()];
    for step in
        [&["--fix", "--yes"][..], &["--fix", "--names", "--allow-widening", "--yes"], &["--overlay", "--yes"]]
    {
        let ran = project.run(&[&["--policy", "policy.yaml", "check", "pack"], step].concat());
        assert_eq!(ran.code, 82, "{}", ran.stderr);
        steps.push(states());
    }
    assert_eq!(steps, [[29, 6, 25], [42, 6, 12], [46, 2, 12], [48, 0, 12]]);
}
