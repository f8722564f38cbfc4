//! What the user locks binds every policy that comes after: no later one says more.

use depute::capability::{Capability, CapabilitySet, Cover, Grant};
use depute::diagnostic::Diagnostic;
use depute::plan::Decision;
use depute::policy::{Key, Narrowing, Policy};

use super::project::{Project, write};
use super::support::{Case, POOL, Seeded, id, policy, set};

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

/// What is said of a later policy, as the program says it.
fn later(user: &str, later: &str) -> String {
    let (user, later) = (policy(user), policy(later));
    let Some(widening) = later.widening(&user) else { return "fine".to_owned() };
    let lock = depute::diagnostic::Problem::new("locked", widening.lock.clone(), "");
    let lock = Diagnostic::new("user.yaml", &user.source, lock).place();
    Diagnostic::new("later.yaml", &later.source, widening.problem(&lock)).to_string()
}

/// The user's policy of most cases: every key is stated, and one of them locked.
fn user(locked: &str) -> String {
    format!(
        "version: 1
locked: [{locked}]
grant: {{use: [tool:read, agent:*], delegate: [tool:read, 'tool:write(docs/**)', agent:*]}}
gates: [tool:bash, 'tool:write(docs/api/**)']
limits: {{depth: 2, agents: 4, deadline: 90s, usd: 2.5}}
tier: F
accept: [{{id: tool:bash, as: advisory, why: a container}}]
env: [TOKEN]
paths: {{read: [/opt/tools]}}
roots: [/srv/agents]
overlays: [{{definition: pdf, digest: '{DIGEST}', allow: [tool:read, tool:grep]}}]
subsumption: {{fetcher: [web_fetch]}}
universal: [ext:all/run]
"
    )
}

#[test]
fn a_later_policy_says_as_much_or_less_and_is_refused_for_more() {
    let base = "version: 1\ngrant: []\n";
    let rows = "subsumption: {fetcher: [web_fetch]}\n";
    let mut found = Vec::new();
    // Each pair: what is within the lock, and what goes beyond it.
    for (key, within, beyond) in [
        (
            "grant",
            format!("{base}{rows}"),
            "version: 1\ngrant:\n  - tool:read\n  - tool:bash\nsubsumption: {fetcher: [web_fetch]}\n"
                .to_owned(),
        ),
        (
            "grant",
            format!(
                "version: 1\ngrant: {{use: [tool:read, agent:x], delegate: ['tool:write(docs/api/**)']}}\n{rows}"
            ),
            format!("version: 1\ngrant: {{use: [], delegate: [tool:write]}}\n{rows}"),
        ),
        // Other rows would let the same id confer more.
        (
            "grant",
            format!("{base}subsumption: {{fetcher: [web_fetch], bash: [read]}}\n"),
            format!("{base}subsumption: {{read: [bash]}}\n"),
        ),
        // Nor does one go around a gate by taking away the row that made an id touch it.
        (
            "gates",
            format!("{base}gates: [tool:bash, 'tool:write(docs/**)', tool:edit]\n{rows}"),
            format!("{base}gates: [tool:bash, 'tool:write(docs/api/**)']\n"),
        ),
        ("gates", format!("{base}gates: ['tool:*']\n{rows}"), format!("{base}{rows}")),
        (
            "limits",
            format!("{base}limits: {{depth: 0, agents: 4, deadline: 1m, usd: 2}}\n"),
            format!("{base}limits: {{depth: 2, agents: 5, deadline: 1m, usd: 2}}\n"),
        ),
        (
            "limits",
            format!("{base}limits: {{agents: 4, deadline: 1m, usd: 2.5, tokens: 9}}\n"),
            base.to_owned(),
        ),
        (
            "limits",
            format!("{base}limits: {{agents: 4, deadline: 1m, usd: 0}}\n"),
            format!("{base}limits: {{agents: 4, deadline: 1m}}\n"),
        ),
        ("tier", format!("{base}tier: K\n"), format!("{base}tier: 0\n")),
        (
            "accept",
            format!("{base}accept: [{{id: tool:bash, as: advisory, why: another}}]\n"),
            format!("{base}accept: [{{id: 'tool:bash(git:*)', as: advisory, why: x}}]\n"),
        ),
        ("env", format!("{base}env: [TOKEN]\n"), format!("{base}env: [TOKEN, SECRET]\n")),
        (
            "paths",
            format!("{base}paths: {{read: [/opt/tools]}}\n"),
            format!("{base}paths: {{write: [/opt/tools]}}\n"),
        ),
        (
            "roots",
            format!("{base}roots: [/srv/agents]\n"),
            format!("{base}roots: [/srv/agents, /tmp/agents]\n"),
        ),
        (
            "overlays",
            format!(
                "{base}overlays: [{{definition: pdf, digest: '{DIGEST}', use: [tool:read], delegate: []}}]\n"
            ),
            format!(
                "{base}overlays: [{{definition: pdf, digest: '{DIGEST}', allow: [tool:read, tool:bash]}}]\n"
            ),
        ),
        (
            "overlays",
            format!("{base}overlays: [{{definition: pdf, digest: '{DIGEST}', allow: []}}]\n"),
            format!(
                "{base}overlays: [{{definition: pdf, digest: '{DIGEST}', allow: []}}, {{definition: csv, digest: '{DIGEST}', allow: []}}]\n"
            ),
        ),
        (
            "overlays",
            format!("{base}overlays: [{{definition: pdf, digest: '{DIGEST}', allow: [tool:grep]}}]\n"),
            base.to_owned(),
        ),
        ("inline", format!("{base}inline: false\n"), format!("{base}inline: true\n")),
        (
            "subsumption",
            format!("{base}{rows}"),
            format!("{base}{rows}  \n").replace("web_fetch", "web_search"),
        ),
        (
            "universal",
            format!("{base}universal: [ext:more/run, ext:all/run]\n{rows}"),
            format!("{base}{rows}universal: [ext:more/run]\n"),
        ),
    ] {
        let user = user(key);
        assert_eq!(later(&user, &within), "fine", "{key}: {within}");
        found.push(later(&user, &beyond));
        // Nothing binds a key that is not locked.
        assert_eq!(later(&user.replace(&format!("[{key}]"), "[]"), &beyond), "fine", "{key}: {beyond}");
    }
    insta::assert_snapshot!(found.join("\n"), @r"
    later.yaml:4:5: `grant` is locked at user.yaml:2:10, and `tool:bash` goes beyond it; remove `tool:bash` from `grant`, or take `grant` out of `locked` there
    later.yaml:2:29: `grant` is locked at user.yaml:2:10, and `tool:write` goes beyond it; remove `tool:write` from `grant`, or take `grant` out of `locked` there
    later.yaml:3:1: `grant` is locked at user.yaml:2:10, and the rows of `subsumption` are others here, so ids mean something else; write them as they are there, or take `grant` out of `locked` there
    later.yaml:1:1: `gates` is locked at user.yaml:2:10, and the rows of `subsumption` are others here, so ids mean something else; write them as they are there, or take `gates` out of `locked` there
    later.yaml:1:1: `gates` is locked at user.yaml:2:10, and `tool:bash` is missing; add `tool:bash` to `gates`, or take `gates` out of `locked` there
    later.yaml:3:20: `limits` is locked at user.yaml:2:10, and `agents: 5` goes beyond `agents: 4`; write `agents: 4` or less, or take `limits` out of `locked` there
    later.yaml:1:1: `limits` is locked at user.yaml:2:10, and without `limits` it is `agents: 32`, beyond `agents: 4`; add `limits: {agents: 4}`, or take `limits` out of `locked` there
    later.yaml:3:1: `limits` is locked at user.yaml:2:10, and `usd: null` goes beyond `usd: 2.5`; write `usd: 2.5` or less, or take `limits` out of `locked` there
    later.yaml:3:1: `tier` is locked at user.yaml:2:10, and tier 0 is below tier F; write `tier: F`, or take `tier` out of `locked` there
    later.yaml:3:15: `accept` is locked at user.yaml:2:10, and `tool:bash(git:*)` goes beyond it; remove `tool:bash(git:*)` from `accept`, or take `accept` out of `locked` there
    later.yaml:3:14: `env` is locked at user.yaml:2:10, and `SECRET` goes beyond it; remove `SECRET` from `env`, or take `env` out of `locked` there
    later.yaml:3:17: `paths` is locked at user.yaml:2:10, and `/opt/tools` goes beyond it; remove `/opt/tools` from `paths`, or take `paths` out of `locked` there
    later.yaml:3:22: `roots` is locked at user.yaml:2:10, and `/tmp/agents` goes beyond it; remove `/tmp/agents` from `roots`, or take `roots` out of `locked` there
    later.yaml:3:38: `overlays` is locked at user.yaml:2:10, and the overlay of `pdf` goes beyond it; let it be as it is there, or take `overlays` out of `locked` there
    later.yaml:3:38: `overlays` is locked at user.yaml:2:10, and the overlay of `csv` goes beyond it; remove it, or take `overlays` out of `locked` there
    later.yaml:1:1: `overlays` is locked at user.yaml:2:10, and the overlay of `pdf` is missing; copy it from there, or take `overlays` out of `locked` there
    later.yaml:3:1: `inline` is locked at user.yaml:2:10, and `inline` is true here; write `inline: false`, or take `inline` out of `locked` there
    later.yaml:3:1: `subsumption` is locked at user.yaml:2:10, and the rows of `subsumption` are others here, so ids mean something else; write them as they are there, or take `subsumption` out of `locked` there
    later.yaml:4:1: `universal` is locked at user.yaml:2:10, and `ext:all/run` is missing; add `ext:all/run` to `universal`, or take `universal` out of `locked` there
    ");
}

/// A key that the user's policy does not state is locked as it stands without it.
#[test]
fn a_locked_key_that_is_not_stated_is_locked_at_its_default() {
    let user = "version: 1\ngrant: [tool:read]\nlocked: [accept, env, inline]\n";
    assert_eq!(later(user, "version: 1\ngrant: [tool:*]\n"), "fine");
    for beyond in ["accept: [{id: tool:read, as: advisory, why: x}]", "env: [A]", "inline: true"] {
        let found = later(user, &format!("version: 1\ngrant: []\n{beyond}\n"));
        assert!(found.contains("is locked at user.yaml:3:"), "{found}");
    }
}

#[test]
fn a_key_is_written_as_it_is_read() {
    let all = user("grant") + "inline: true\n";
    let policy = policy(&all);
    let lines: Vec<String> = Key::ALL.iter().map(|key| policy.key_text(*key)).collect();
    let again = super::support::policy(&format!("version: 1\n{}\nlocked: [grant]\n", lines.join("\n")));
    let bare = |policy: &Policy| {
        let source = Policy::read(b"version: 1\ngrant: []\n").unwrap();
        // Where things stand differs; what they are does not.
        format!(
            "{:?}",
            (
                (&policy.grant, &policy.gates, policy.limits, policy.tier, &policy.accept, &policy.env),
                (&policy.paths, &policy.roots, &policy.overlays, policy.inline, &policy.locked),
                (&policy.subsumption_rows, &policy.universal_added, source.tests),
            )
        )
    };
    assert_eq!(bare(&again), bare(&policy));
    assert!(policy.inline && !policy.paths.read.is_empty(), "every key says something");
}

/// Whatever a later policy says: if it is taken, it decides no grant that the user's would not cover.
#[test]
fn with_a_locked_grant_no_later_policy_gives_more_in_20_000_random_ones() {
    let accept: String = POOL
        .iter()
        .filter(|id| !id.ends_with('*'))
        .map(|id| format!("  - {{id: '{id}', as: advisory, why: a test}}\n"))
        .collect();
    let user_base = policy("version: 1\ngrant: []\nlocked: [grant]\n");
    let later_base = policy(&format!("version: 1\ngrant: []\naccept:\n{accept}"));
    let rows =
        ROWS.map(|rows| policy(&format!("version: 1\ngrant: []\nsubsumption: {rows}\n")).subsumption_rows);
    let usable: Vec<&str> =
        POOL.iter().copied().filter(|id| id.starts_with("tool:") || id.starts_with("agent:")).collect();
    let case = Case::new();
    let mut random = Seeded::new(7);
    let (mut taken, mut refused, mut granted, mut narrower) = (0, 0, 0, 0);
    for number in 0..20_000 {
        let grant = |random: &mut Seeded, from: &[&str]| {
            let (mut uses, mut delegate) = (random.some(from, 4), random.some(from, 6));
            uses.push("agent:helper");
            delegate.extend(["tool:delegate", "agent:helper"]);
            Grant { uses: set(&uses), delegate: set(&delegate) }
        };
        let own_rows = &rows[random.below(rows.len())];
        let user = changed(&user_base, |user| {
            user.grant = grant(&mut random, &usable);
            user.subsumption_rows.clone_from(own_rows);
        });
        let table = user.subsumption();
        let covered = |text: &&str| {
            let held = |set: &CapabilitySet| set.covers(&id(text), &table) != Cover::No;
            held(&user.grant.uses) && held(&user.grant.delegate)
        };
        // Half of them by luck, half out of what the user holds, so that many are taken.
        let held: Vec<&str> = usable.iter().copied().filter(covered).collect();
        let from = if random.below(2) == 0 || held.is_empty() { &usable } else { &held };
        let later_grant = grant(&mut random, from);
        let later_rows = if random.below(3) > 0 { own_rows } else { &rows[random.below(rows.len())] };
        let later = changed(&later_base, |later| {
            later.grant = later_grant;
            later.subsumption_rows.clone_from(later_rows);
        });
        let said = format!("{number}: {:?} {later_rows:?} after {:?} {own_rows:?}", later.grant, user.grant);
        if later.widening(&user).is_some() {
            refused += 1;
            // It says more somewhere, or reads ids by another table; what `init` makes of it does not.
            assert!(number % 8 > 0 || later.within_locks_of(&user).widening(&user).is_none(), "{said}");
            continue;
        }
        taken += 1;
        narrower += usize::from(later.grant != user.grant);
        let mut ids = random.some(&usable, 4);
        ids.retain(|id| !id.ends_with('*') && !id.starts_with("tool:find"));
        ids.extend(["tool:delegate", "agent:helper"]);
        let case = case.clone().tools(&serde_json::to_string(&ids).unwrap()).with(|case| {
            case.situation.facts.holder = later.grant.clone();
            case.policy = later;
        });
        if let Decision::Granted(plan) = case.decide() {
            granted += 1;
            for set in [&plan.considered().effective, &plan.considered().delegate] {
                assert!(user.grant.delegate.covers_all(set, &table), "{set:?} by {said}");
            }
        }
    }
    println!(
        "20000 later policies: {refused} refused, {taken} taken, {narrower} of them another grant; {granted} requests granted"
    );
    assert!(refused > 2_000 && taken > 2_000 && narrower > 1_000 && granted > 500);
}

fn changed(policy: &Policy, change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = policy.clone();
    change(&mut policy);
    policy
}

/// Rows of `subsumption`, most often none.
const ROWS: [&str; 6] = ["{}", "{}", "{}", "{grep: [web_fetch]}", "{grep: [bash]}", "{find: [write, bash]}"];

/// What waits under the user's locked gates waits under every later policy that is taken.
#[test]
fn with_locked_gates_nothing_that_waits_goes_free_in_20_000_random_policies() {
    let base = policy("version: 1\ngrant: []\nlocked: [gates]\n");
    let rows =
        ROWS.map(|rows| policy(&format!("version: 1\ngrant: []\nsubsumption: {rows}\n")).subsumption_rows);
    let ids: Vec<Capability> = POOL.iter().map(|text| id(text)).collect();
    let mut random = Seeded::new(8);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut gates = random.some(&POOL, 2);
        let own_rows = &rows[random.below(rows.len())];
        let user = changed(&base, |policy| {
            policy.gates = set(&gates);
            policy.subsumption_rows.clone_from(own_rows);
        });
        if random.below(2) == 0 {
            gates.clear();
        }
        gates.extend(random.some(&POOL, 3));
        let later_rows = if random.below(3) > 0 { own_rows } else { &rows[random.below(rows.len())] };
        let later = changed(&base, |policy| {
            policy.gates = set(&gates);
            policy.subsumption_rows.clone_from(later_rows);
        });
        if later.widening(&user).is_some() {
            refused += 1;
            continue;
        }
        taken += 1;
        let (table, later_table) = (user.subsumption(), later.subsumption());
        let waits =
            |gates: &CapabilitySet, id: &Capability, table| gates.iter().any(|gate| id.touches(gate, table));
        for id in ids.iter().filter(|id| waits(&user.gates, id, &table)) {
            assert!(
                waits(&later.gates, id, &later_table),
                "{id} waits under {:?}, not under {:?}",
                user.gates,
                later.gates
            );
        }
    }
    println!("20000 later policies: {refused} refused, {taken} taken");
    assert!(refused > 2_000 && taken > 2_000);
}

const USER: &str =
    "version: 1\ngrant: [tool:read, tool:grep, agent:*]\nruntime: {default: scripted}\nlocked: [grant]\n";
const WIDE: &str = "version: 1\ngrant: [tool:read, tool:write, agent:*]\nruntime: {default: scripted}\n";
const NARROW: &str = "version: 1\ngrant: [tool:read, agent:*]\nruntime: {default: scripted}\n";

fn writer() -> Project {
    let project = Project::new();
    project.skill("writer", "Read, Write").skill("reader", "Read");
    project.write("wide.yaml", WIDE).write("narrow.yaml", NARROW);
    project
}

const WRITE: [&str; 6] = ["run", "writer", "--trust-workspace", "--task", "write started x", "--quiet"];
const READ: [&str; 5] = ["plan", "reader", "--trust-workspace", "--task", "x"];

fn with<'a>(policy: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    ["--policy", policy].iter().chain(args).copied().collect()
}

/// The operator's policy for the project's directory.
fn directory_policy(project: &Project) -> std::path::PathBuf {
    let key = depute::host::key(&project.root().canonicalize().unwrap());
    project.config().join("policies").join(format!("{key}.yaml"))
}

#[test]
fn the_file_of_a_command_line_cannot_widen_what_the_user_locks() {
    let project = writer();
    let started = project.root().join("started");
    write(&project.config().join("policy.yaml"), USER);
    let (code, value) = project.json(&with("wide.yaml", &WRITE));
    assert_eq!((code, value["error"]["code"].as_str()), (82, Some("POLICY_INVALID")), "{value}");
    assert_eq!((value["error"]["line"].as_u64(), value["error"]["column"].as_u64()), (Some(2), Some(20)));
    let message = value["error"]["message"].as_str().unwrap();
    let place = format!("{}:4:10", project.config().join("policy.yaml").display());
    assert_eq!(message, format!("`grant` is locked at {place}, and `tool:write` goes beyond it"));
    assert!(!started.exists());
    // No command goes around it.
    for args in [vec!["list"], vec!["check", "wide.yaml"], READ.to_vec()] {
        assert_eq!(project.run(&with("wide.yaml", &args)).code, 82, "{args:?}");
        assert_eq!(project.run(&with("narrow.yaml", &args)).code, 0, "{args:?}");
    }
    // The same file, where nothing is locked.
    write(&project.config().join("policy.yaml"), USER.replace("locked: [grant]\n", ""));
    let ran = project.run(&with("wide.yaml", &WRITE));
    assert_eq!((ran.code, started.exists()), (0, true), "{}", ran.stderr);
}

#[test]
fn the_policy_of_a_directory_is_bound_and_binds() {
    let project = writer();
    let started = project.root().join("started");
    write(&directory_policy(&project), WIDE);
    write(&project.config().join("policy.yaml"), USER);
    let ran = project.run(&WRITE);
    assert_eq!(ran.code, 82, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("`grant` is locked at"), "{}", ran.stderr);
    write(&directory_policy(&project), NARROW);
    assert_eq!(project.run(&READ).code, 0);
    // What the directory's own policy locks binds `--policy` alone.
    write(&directory_policy(&project), format!("{NARROW}locked: [grant]\n"));
    write(&project.config().join("policy.yaml"), USER.replace("locked: [grant]\n", ""));
    assert_eq!(project.run(&with("wide.yaml", &WRITE)).code, 82);
    assert!(!started.exists());
    assert_eq!(project.run(&with("narrow.yaml", &READ)).code, 0);
    write(&directory_policy(&project), NARROW);
    assert_eq!(project.run(&with("wide.yaml", &WRITE)).code, 0);
    assert!(started.exists());
}

#[test]
fn a_user_policy_that_cannot_be_read_is_not_skipped() {
    let project = writer();
    let path = project.config().join("policy.yaml");
    let refused = || {
        let ran = project.run(&with("narrow.yaml", &READ));
        assert_eq!(ran.code, 82, "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("does not go around it, since it may lock keys"), "{}", ran.stderr);
    };
    write(&path, "version: 1\ngrant: [\n");
    refused();
    write(&path, "version: 1\ngrant: []\nlocked: [grants]\n");
    refused();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    refused();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    refused();
    std::fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink("policy.yaml", &path).unwrap();
    refused();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(project.run(&with("narrow.yaml", &READ)).code, 0);
}

#[test]
fn locks_of_the_file_in_force_bind_nothing_and_a_workspace_has_none() {
    let project = writer();
    // Nothing comes after the file of a command line but the workspace's, which only narrows.
    project.write("locked.yaml", format!("{NARROW}locked: [grant]\n"));
    assert_eq!(project.run(&with("locked.yaml", &READ)).code, 0);
    let user = project.config().join("policy.yaml");
    write(&user, USER);
    assert_eq!(project.run(&with(user.to_str().unwrap(), &READ)).code, 0);
    project.write(".depute/policy.yaml", "version: 1\nlocked: [grant]\n");
    let ran = project.run(&READ);
    assert_eq!(ran.code, 82, "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot state `locked`"), "{}", ran.stderr);
    assert!(Narrowing::read(b"version: 1\nlocked: []\n").is_err());
    project.write(".depute/policy.yaml", "version: 1\ngrant: [tool:read]\n");
    assert_eq!(project.run(&READ).code, 80);
    project.write(".depute/policy.yaml", "version: 1\ngrant: [tool:read, agent:*]\n");
    assert_eq!(project.run(&READ).code, 0);
}

/// A decision under a policy that a lock has let pass is explained from its inputs alone.
#[test]
fn a_decision_is_made_again_without_the_lock() {
    let project = writer();
    let user = project.config().join("policy.yaml");
    write(&user, USER);
    assert_eq!(project.run(&with("narrow.yaml", &WRITE)).code, 80);
    std::fs::remove_file(&user).unwrap();
    let (code, value) = project.json(&["explain"]);
    assert_eq!((code, value["refusal"]["code"].as_str()), (0, Some("CAPABILITY_ESCALATION")), "{value}");
}

#[test]
fn init_writes_within_what_the_user_locks() {
    let project = writer();
    project.skill("shell", "Bash").skill("scribe", "Write(docs/**)");
    let user = project.config().join("policy.yaml");
    let all =
        "grant, gates, limits, tier, accept, env, paths, roots, overlays, inline, subsumption, universal";
    write(&user, self::user(all).replace("tier: F", "tier: 0"));
    let (code, value) = project.json(&["init"]);
    assert_eq!(code, 0, "{value}");
    assert_eq!(value["locked"].as_array().unwrap().len(), 12);
    let path = std::path::PathBuf::from(value["policy"].as_str().unwrap());
    let written = policy(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(written.widening(&policy(&std::fs::read_to_string(&user).unwrap())), None);
    assert_eq!(written.grant.uses.texts(), ["agent:*", "tool:read"]);
    // It is in force, and does what it says.
    let (code, value) = project.json(&READ_SCRIPTED);
    assert_eq!((code, value["effective"][0].as_str()), (0, Some("tool:read")), "{value}");
    assert_eq!(value["policy"].as_str(), path.to_str());
    insta::assert_snapshot!(text_of(&project, &path), @r#"
    # The policy for …/shop: reading, and nothing else.
    version: 1

    # …/config/depute/policy.yaml locks grant, gates, limits, tier, accept, env, paths, roots, overlays, inline, subsumption, universal: this may not say more.

    grant:
      - tool:read                    # read files
      - agent:*                      # spawn any definition; each gets no more than is granted here
    # Locked by the user's policy, though a definition here asks for it:
    #    tool:bash                   # run commands: all files of the project, in a cage; everything of yours at tier 0
    #    tool:write                  # create and replace files
    #    tool:write(docs/**)         # create and replace files

    # What waits for a person's yes.
    gates: [tool:bash, tool:write(docs/api/**)]

    # The least that the kernel must hold. 0 puts no cage around anything: what holds is each runtime's flags.
    tier: K

    # As the user's policy locks it.
    limits: {depth: 2, agents: 4, concurrent: 4, deadline: 90s, child_deadline: 10m, tokens: null, usd: 2.5}

    # As the user's policy locks it.
    overlays: [{definition: pdf, digest: "sha256:1111111111111111111111111111111111111111111111111111111111111111", allow: [tool:grep, tool:read]}]

    # As the user's policy locks it.
    subsumption: {fetcher: [web_fetch]}

    # As the user's policy locks it.
    universal: [ext:all/run]
    "#);
    // Where nothing is locked, it grants all that only reads.
    std::fs::remove_file(&path).unwrap();
    write(&user, self::user(""));
    let (_, value) = project.json(&["init"]);
    assert_eq!(
        (value["locked"].as_array().unwrap().len(), value["granted"].as_array().unwrap().len()),
        (0, 6)
    );
    // A policy that cannot be read may lock anything.
    std::fs::remove_file(&path).unwrap();
    write(&user, "version: 1\n");
    assert_eq!(project.run(&["init"]).code, 82);
    assert!(!path.exists());
}

const READ_SCRIPTED: [&str; 7] =
    ["plan", "reader", "--trust-workspace", "--task", "x", "--runtime", "scripted"];

fn text_of(project: &Project, path: &std::path::Path) -> String {
    let base = project.config().parent().unwrap().parent().unwrap().to_owned();
    let base = base.canonicalize().unwrap().display().to_string();
    std::fs::read_to_string(path).unwrap().replace(&base, "…")
}
