//! The event hook: a program of the administrator's that is run for each event. Never by a shell.

use std::process::Stdio;
use std::time::Duration;

use hotset_api::{ConditionKind, Event};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::daemon::register::ConditionRegister;
use crate::running_time;

/// Events that wait for the hook; more are not told to it.
const QUEUE_MAX: usize = 256;

/// How long one run may take.
const RUN_LIMIT: Duration = Duration::from_secs(30);

/// How long an event for which it failed waits to be told again, where no other comes.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Hands events to the program, one after the other. A handle: cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Hook {
    queue: mpsc::Sender<Event>,
    register: ConditionRegister,
}

impl Hook {
    /// Of a program and its arguments. While it fails that is a condition, and the event for which it failed last is told again.
    pub(crate) fn start(command: Vec<String>, register: ConditionRegister) -> Option<Self> {
        let (program, arguments) = command.split_first()?;
        let (program, arguments) = (program.clone(), arguments.to_vec());
        let (queue, mut events) = mpsc::channel::<Event>(QUEUE_MAX);
        let conditions = register.clone();
        tokio::spawn(async move {
            let mut failed: Option<Event> = None;
            while let Some(event) = next(&mut events, &mut failed).await {
                let done = running_time::timeout(RUN_LIMIT, run(&program, &arguments, &event)).await;
                let done = done.unwrap_or_else(|_| Err(format!("killed after {} s", RUN_LIMIT.as_secs())));
                let done = done.map_err(|error| format!("event hook {program}: {error}"));
                conditions.follow(ConditionKind::EventHook, &done);
                failed = done.is_err().then_some(event);
            }
        });
        Some(Self { queue, register })
    }

    pub(crate) fn tell(&self, events: Vec<Event>) {
        for event in events {
            if self.queue.try_send(event).is_err() {
                let reason = format!("event hook: {QUEUE_MAX} events wait for it; it is not told of newer ones");
                self.register.raise(ConditionKind::EventHook, reason);
            }
        }
    }
}

/// The next event; after a while without one, that for which it failed.
async fn next(events: &mut mpsc::Receiver<Event>, failed: &mut Option<Event>) -> Option<Event> {
    if failed.is_none() {
        return events.recv().await;
    }
    match tokio::time::timeout(RETRY_INTERVAL, events.recv()).await {
        Ok(event) => event,
        Err(_) => failed.take(),
    }
}

/// The event goes to its standard input as JSON, and in parts into its environment, which has nothing else but a PATH.
async fn run(program: &str, arguments: &[String], event: &Event) -> Result<(), String> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("HOTSET_EVENT_ID", event.id.to_string())
        .env("HOTSET_EVENT_SEVERITY", event.severity.word())
        .env("HOTSET_EVENT_SUBJECT", event.subject.to_string())
        .env("HOTSET_EVENT_CHANGE", &event.change)
        .env("HOTSET_EVENT_CAUSE", &event.cause)
        .env("HOTSET_EVENT_BY", &event.by)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let text = serde_json::to_vec(event).map_err(|error| error.to_string())?;
    if let Some(mut input) = child.stdin.take() {
        // A hook that does not read has what it needs from its environment.
        let _ = input.write_all(&text).await;
    }
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("it ended with {status}")) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use hotset_api::{Severity, Subject, SubjectKind};

    use super::*;

    #[test]
    fn the_program_gets_the_event_and_no_shell_sees_it() {
        let directory = tempfile::tempdir().unwrap();
        let (script, out) = (directory.path().join("hook"), directory.path().join("out"));
        std::fs::write(&script, "#!/bin/sh\ncat > \"$1\"\necho \"$HOTSET_EVENT_CHANGE\" >> \"$1\"\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
        let change = "$(touch /nowhere) `id` ; online → failed";
        let event = Event {
            id: 7,
            at_unix_ms: 1,
            severity: Severity::Error,
            subject: Subject::new(SubjectKind::Pool, "p"),
            pool: None,
            path: String::new(),
            change: change.to_owned(),
            cause: String::new(),
            by: "user root".to_owned(),
        };
        let arguments = [out.display().to_string()];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(script.to_str().unwrap(), &arguments, &event)).unwrap();
        let text = std::fs::read_to_string(&out).unwrap();
        let (json, environment) = text.split_once("}\n").map_or((text.as_str(), ""), |(json, rest)| (json, rest));
        assert!(json.contains("\"id\":7"), "{text}");
        assert!(text.contains(change) && (environment.is_empty() || environment.contains(change)), "{text}");
        let error = runtime.block_on(run("/nowhere/hook", &[], &event)).unwrap_err();
        assert!(error.contains("cannot be started"), "{error}");
    }
}
