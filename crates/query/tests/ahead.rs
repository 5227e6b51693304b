//! Functions that are called for many rows at once give what they give one by one, however little of
//! what was gathered is answered. `SEED=n` replays one run.

extern crate astrarium_query as query;

mod support;

use std::collections::HashMap;
use std::sync::Mutex;

use model::{Error, Result};
use query::value::Value;
use query::world::{Rehearsal, World};
use query::{Statement, Want};
use support::chance::Chance;
use support::memory::Memory;
use support::{block_on, statement};

const RUNS: u64 = 25;

const QUERIES: [&str; 16] = [
    "SELECT VALUE udf.twice(c.n) FROM c",
    "SELECT c.id, udf.twice(c.n) AS t FROM c WHERE udf.even(c.n)",
    "SELECT VALUE udf.twice(x) FROM c JOIN x IN c.list",
    "SELECT VALUE udf.twice(udf.twice(x)) FROM c JOIN x IN c.list WHERE udf.even(x)",
    "SELECT c.id, i FROM c JOIN i IN (SELECT VALUE udf.list(c.n))",
    "SELECT VALUE ARRAY(SELECT VALUE udf.twice(x) FROM x IN c.list WHERE udf.even(x)) FROM c",
    "SELECT VALUE SUM(udf.twice(x)) FROM c JOIN x IN c.list",
    "SELECT udf.even(x) AS e, COUNT(udf.twice(x)) AS n FROM c JOIN x IN c.list GROUP BY udf.even(x)",
    "SELECT DISTINCT VALUE udf.twice(x) FROM c JOIN x IN c.list",
    "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE udf.twice(c.n) FROM c)",
    "SELECT VALUE udf.twice(c.n) FROM c ORDER BY c.n DESC",
    "SELECT DISTINCT VALUE udf.even(c.n) FROM c ORDER BY c.n",
    "SELECT TOP 3 VALUE udf.small(c.n) FROM c",
    "SELECT VALUE udf.even(c.n) ? udf.small(c.n) : udf.twice(c.n) FROM c",
    "SELECT VALUE c.id FROM c WHERE c.n < 20 AND udf.small(c.n)",
    "SELECT VALUE udf.none(c.n) FROM c",
];

/// What the functions are.
fn call(name: &str, arguments: &[Value<'_>]) -> Result<Value<'static>> {
    let number = arguments.first().and_then(Value::as_f64);
    Ok(match (name, number) {
        ("twice", Some(n)) => Value::number(n * 2.0),
        ("even", Some(n)) => Value::Bool(n % 2.0 == 0.0),
        ("list", Some(n)) => Value::array((0..(n as i64 % 4)).map(Value::int).collect()),
        ("small", Some(n)) if n > 20.0 => return Err(Error::bad_request("too large")),
        ("small", Some(n)) => Value::number(n),
        ("twice" | "even" | "list" | "small", None) => Value::Undefined,
        _ => return Err(Error::bad_request("no such function")),
    })
}

/// A world that makes every call at once.
struct OneByOne;

impl World for OneByOne {
    fn now_ticks(&self) -> i64 {
        0
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn call(&self, name: &str, arguments: &[Value<'_>]) -> Result<Value<'static>> {
        call(name, arguments)
    }
}

/// A world that gathers calls, and answers as many of them as chance will have it.
struct Together(Mutex<State>);

struct State {
    chance: Option<Chance>,
    window: usize,
    rehearsing: bool,
    known: HashMap<String, Result<Value<'static>>>,
    noted: Vec<(String, Result<Value<'static>>)>,
    /// Calls that were made alone, and exchanges of many.
    alone: usize,
    exchanges: usize,
}

impl Together {
    /// Without chance everything that is gathered is answered, and much is gathered.
    fn new(mut chance: Option<Chance>) -> Self {
        let window = chance.as_mut().map_or(1_000, |chance| 1 + chance.below(9));
        Self(Mutex::new(State {
            chance,
            window,
            rehearsing: false,
            known: HashMap::new(),
            noted: Vec::new(),
            alone: 0,
            exchanges: 0,
        }))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics under the lock")
    }
}

impl World for Together {
    fn now_ticks(&self) -> i64 {
        0
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn call(&self, name: &str, arguments: &[Value<'_>]) -> Result<Value<'static>> {
        let mut state = self.state();
        let arguments_text: Vec<String> = arguments.iter().map(Value::to_json).collect();
        let key = format!("{name}({})", arguments_text.join(","));
        if let Some(answer) = state.known.get(&key) {
            return answer.clone();
        }
        let answer = call(name, arguments);
        if state.rehearsing {
            if state.noted.iter().all(|(known, _)| *known != key) {
                state.noted.push((key, answer));
            }
            return Ok(Value::Undefined);
        }
        state.alone += 1;
        answer
    }

    fn rehearsal(&self) -> Option<&dyn Rehearsal> {
        Some(self)
    }
}

impl Rehearsal for Together {
    fn begin(&self, again: bool) {
        let mut state = self.state();
        let forgets = state.chance.as_mut().is_some_and(|chance| chance.once_in(3));
        if !again && forgets {
            state.known.clear();
        }
        state.rehearsing = true;
    }

    fn noted(&self) -> usize {
        self.state().noted.len()
    }

    fn is_full(&self) -> bool {
        let state = self.state();
        state.noted.len() >= state.window
    }

    fn finish(&self) -> usize {
        let mut state = self.state();
        let state = &mut *state;
        state.rehearsing = false;
        let noted = std::mem::take(&mut state.noted);
        let all = noted.len();
        let answered = state
            .chance
            .as_mut()
            .map_or(all, |chance| if chance.once_in(3) { chance.below(all + 1) } else { all });
        state.exchanges += usize::from(!noted.is_empty());
        state.known.extend(noted.into_iter().take(answered));
        answered
    }
}

/// All rows, or what went wrong. Pages before a failure count.
fn rows(statement: &Statement, source: &Memory, world: &dyn World, per_page: usize) -> Vec<String> {
    let want = Want { rows: per_page, bytes: 4 << 20 };
    let (mut rows, mut resume) = (Vec::new(), None);
    loop {
        match block_on(statement.page(source, world, want, resume.as_deref())) {
            Err(error) => {
                rows.push(error.message);
                return rows;
            }
            Ok(page) => {
                rows.extend(page.rows.iter().map(|row| String::from_utf8_lossy(row).into_owned()));
                match page.resume {
                    Some(next) => resume = Some(next),
                    None => return rows,
                }
            }
        }
    }
}

fn documents(chance: &mut Chance) -> Vec<String> {
    let count = chance.below(60);
    let document = |id: usize| {
        let numbers: Vec<String> =
            (0..chance.below(12)).map(|_| chance.below(30).to_string()).collect();
        let list = numbers.join(",");
        format!(r#"{{"id":"{id:03}","n":{},"list":[{list}]}}"#, chance.below(24))
    };
    (0..count).map(document).collect()
}

#[test]
fn many_at_once_give_what_they_give_one_by_one() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    for seed in seed.map_or(0..RUNS, |seed| seed..seed + 1) {
        let mut chance = Chance::new(seed);
        let source = Memory::new(&documents(&mut chance), chance.once_in(2), Vec::new());
        for text in QUERIES {
            let statement = statement(text, &[]).expect(text);
            let per_page = 1 + chance.below(40);
            let expected = rows(&statement, &source, &OneByOne, per_page);
            for world in [Together::new(None), Together::new(Some(Chance::new(chance.next())))] {
                let got = rows(&statement, &source, &world, per_page);
                assert_eq!(got, expected, "seed {seed}: {text}");
            }
        }
    }
}

#[test]
fn no_call_is_made_alone_where_many_can_be_made_at_once() {
    let numbers =
        |n: usize| (0..40).map(|i| (n * 40 + i).to_string()).collect::<Vec<_>>().join(",");
    let documents: Vec<String> = (0..100)
        .map(|n| format!(r#"{{"id":"{n:03}","n":{},"list":[{}]}}"#, n % 20, numbers(n)))
        .collect();
    let source = Memory::new(&documents, true, Vec::new());
    // All but the last, which has no function to call.
    for text in &QUERIES[..QUERIES.len() - 1] {
        let world = Together::new(None);
        rows(&statement(text, &[]).expect(text), &source, &world, 10_000);
        let state = world.state();
        assert_eq!(state.alone, 0, "{text}");
        assert!((1..=60).contains(&state.exchanges), "{} exchanges: {text}", state.exchanges);
    }
}
