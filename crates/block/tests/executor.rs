//! The executor as its users see it: tasks, timers, the end of a turn, commands from other threads.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::future::poll_fn;
use hotset_block::sync::{Event, Promise, Semaphore};
use hotset_block::{COMMANDS_MAX, Env, Executor, ExecutorOptions, HostEnv, PostError};

fn executor() -> Executor {
    Executor::new(ExecutorOptions { ring_entries: 8, registered_bytes: 1 << 20, ..ExecutorOptions::default() })
        .expect("io_uring is there")
}

/// Lets every other ready task run once.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn the_root_may_borrow_and_its_value_comes_back() {
    let text = String::from("kept");
    assert_eq!(executor().run(async |_| text.len()), 4);
}

#[test]
fn tasks_run_in_the_order_in_which_they_became_ready() {
    let order = Rc::new(RefCell::new(Vec::new()));
    executor().run(async |env| {
        for number in 0..3 {
            let order = Rc::clone(&order);
            env.spawn(async move {
                order.borrow_mut().push(number);
                yield_now().await;
                order.borrow_mut().push(number + 10);
            });
        }
        env.sleep(Duration::from_millis(1)).await;
    });
    assert_eq!(*order.borrow(), [0, 1, 2, 10, 11, 12]);
}

#[test]
fn timers_fire_in_the_order_of_their_deadlines_and_never_early() {
    let order = Rc::new(RefCell::new(Vec::new()));
    executor().run(async |env| {
        let started = env.now();
        for milliseconds in [15, 5, 10] {
            let (env, order) = (env.clone(), Rc::clone(&order));
            env.clone().spawn(async move {
                env.sleep(Duration::from_millis(milliseconds)).await;
                assert!(env.now().since(started) >= Duration::from_millis(milliseconds));
                order.borrow_mut().push(milliseconds);
            });
        }
        drop(env.sleep(Duration::from_millis(1)));
        env.sleep(Duration::from_millis(20)).await;
    });
    assert_eq!(*order.borrow(), [5, 10, 15]);
}

#[test]
fn a_task_that_never_rests_starves_neither_timers_nor_the_end_of_a_turn() {
    executor().run(async |env| {
        env.spawn(async {
            loop {
                yield_now().await;
            }
        });
        env.sleep(Duration::from_millis(2)).await;
        env.end_of_turn().await;
    });
}

#[test]
fn the_end_of_a_turn_comes_after_everything_that_was_ready() {
    let done = Rc::new(Cell::new(0));
    executor().run(async |env| {
        let event = Rc::new(Event::new());
        for _ in 0..3 {
            let (done, event) = (Rc::clone(&done), Rc::clone(&event));
            env.spawn(async move {
                event.wait().await;
                yield_now().await;
                done.set(done.get() + 1);
            });
        }
        yield_now().await;
        event.wake_all();
        env.end_of_turn().await;
        assert_eq!(done.get(), 3);
        env.end_of_turn().await;
    });
}

#[test]
fn tasks_wait_for_each_other_and_those_that_are_left_are_dropped() {
    let dropped = Rc::new(Cell::new(false));
    struct Mark(Rc<Cell<bool>>);
    impl Drop for Mark {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let mark = Mark(Rc::clone(&dropped));
    executor().run(async |env| {
        let semaphore = Semaphore::new(1);
        let (promise, promised) = Promise::new();
        let (held, in_task) = (semaphore.acquire(1).await, semaphore.clone());
        env.spawn(async move {
            let _permit = in_task.acquire(1).await;
            promise.set(7);
        });
        let forever = env.clone();
        env.spawn(async move {
            let _mark = mark;
            forever.sleep(Duration::from_secs(3600)).await;
        });
        yield_now().await;
        drop(held);
        assert_eq!(promised.await, Some(7));
    });
    assert!(dropped.get());
}

#[test]
fn more_tasks_than_a_turn_polls_all_run() {
    let count = Rc::new(Cell::new(0));
    executor().run(async |env| {
        let (promise, promised) = Promise::new();
        let promise = Rc::new(RefCell::new(Some(promise)));
        for _ in 0..10_000 {
            let (count, promise) = (Rc::clone(&count), Rc::clone(&promise));
            env.spawn(async move {
                count.set(count.get() + 1);
                if count.get() == 10_000 {
                    promise.take().expect("set once").set(());
                }
            });
        }
        promised.await.expect("the last task sets it");
    });
    assert_eq!(count.get(), 10_000);
}

#[test]
fn commands_from_another_thread_run_in_order_on_the_executor() {
    let executor = executor();
    let remote = executor.remote();
    let poster = std::thread::spawn(move || {
        let (answer, answers) = mpsc::channel();
        for number in 0..100 {
            let answer = answer.clone();
            let command = move |_: &HostEnv| answer.send((number, std::thread::current().id())).expect("we wait");
            while remote.post(Box::new(command.clone())) == Err(PostError::Full) {
                std::thread::yield_now();
            }
        }
        let received: Vec<_> = answers.iter().take(100).collect();
        (received, remote)
    });
    let (promise, promised) = Promise::new();
    let promise = Rc::new(RefCell::new(Some(promise)));
    let (received, remote) = executor.run(async |env| {
        let watcher = env.clone();
        env.spawn(async move {
            while !poster.is_finished() {
                watcher.sleep(Duration::from_millis(1)).await;
            }
            promise.take().expect("set once").set(poster.join().expect("the poster does not panic"));
        });
        promised.await.expect("the watcher sets it")
    });
    let here = std::thread::current().id();
    assert!(received.iter().enumerate().all(|(index, (number, thread))| index == *number && *thread == here));
    assert_eq!(remote.post(Box::new(|_| ())), Err(PostError::Ended));
}

#[test]
fn commands_beyond_the_limit_are_refused_and_those_before_it_run_at_the_start() {
    let executor = executor();
    let remote = executor.remote();
    let (sender, receiver) = mpsc::channel();
    for _ in 0..COMMANDS_MAX {
        let sender = sender.clone();
        remote.post(Box::new(move |_| sender.send(()).expect("we wait"))).expect("there is room");
    }
    assert_eq!(remote.post(Box::new(|_| ())), Err(PostError::Full));
    executor.run(async |env| {
        while receiver.try_iter().next().is_none() {
            env.sleep(Duration::from_millis(1)).await;
        }
    });
    assert_eq!(receiver.try_iter().count(), COMMANDS_MAX - 1);
}

#[test]
fn a_waker_may_wake_from_another_thread_and_after_its_executor_is_gone() {
    let (sender, receiver) = mpsc::channel::<Waker>();
    let woken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let by_thread = std::sync::Arc::clone(&woken);
    let thread = std::thread::spawn(move || {
        let waker = receiver.recv().expect("the task sends its waker");
        by_thread.store(true, std::sync::atomic::Ordering::Release);
        waker.wake_by_ref();
        waker
    });
    executor().run(async |_| {
        poll_fn(|context| {
            if woken.load(std::sync::atomic::Ordering::Acquire) {
                return Poll::Ready(());
            }
            // The thread is gone if it has woken us between the two lines; then nobody waits for the waker.
            let _ = sender.send(context.waker().clone());
            Poll::Pending
        })
        .await;
    });
    thread.join().expect("the thread does not panic").wake();
}

#[test]
fn an_executor_inside_another_ones_task_does_not_take_its_wakes() {
    executor().run(async |outer| {
        let event = Rc::new(Event::new());
        let (promise, promised) = Promise::new();
        let waiting = Rc::clone(&event);
        outer.spawn(async move {
            waiting.wait().await;
            promise.set(());
        });
        yield_now().await;
        executor().run(async |_| event.wake_all());
        promised.await.expect("the wake came through");
    });
}

#[test]
fn random_numbers_differ() {
    let numbers: std::collections::BTreeSet<u64> = executor().run(async |env| (0..100).map(|_| env.random()).collect());
    assert_eq!(numbers.len(), 100);
}
