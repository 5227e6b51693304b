//! How many tests passed and failed, read from the last words of each test runner.

/// Tests that passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
}

impl Count {
    /// What a line of output says, if it is such a line.
    pub fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        if let Some(count) = line.strip_prefix("# pass ") {
            return Some(Self { passed: count.parse().ok()?, failed: 0 });
        }
        if let Some(count) = line.strip_prefix("# fail ") {
            return Some(Self { passed: 0, failed: count.parse().ok()? });
        }
        let is_summary = line.starts_with("test result:") || starts_with_number(line);
        if !is_summary {
            return None;
        }
        let passed = before(line, "passed");
        let failed = [before(line, "failed"), before(line, "error"), before(line, "errors")];
        let counted = passed.is_some() || failed.iter().any(Option::is_some);
        counted.then(|| Self { passed: passed.unwrap_or(0), failed: failed.iter().flatten().sum() })
    }

    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

fn starts_with_number(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_digit())
}

/// The number before a word.
fn before(line: &str, word: &str) -> Option<usize> {
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || c == ',' || c == ';')
        .filter(|w| !w.is_empty())
        .collect();
    let at = words.iter().position(|found| *found == word)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Count;

    fn check(line: &str, expected: Option<(usize, usize)>) {
        assert_eq!(Count::read(line).map(|count| (count.passed, count.failed)), expected, "{line}");
    }

    #[test]
    fn every_runner_has_its_own_last_words() {
        check(
            "test result: ok. 25 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            Some((25, 0)),
        );
        check("86 passed, 2 failed", Some((86, 2)));
        check("3 failed, 57 passed, 1 error in 12.34s", Some((57, 4)));
        check("61 passed in 12.34s", Some((61, 0)));
        check("# pass 31", Some((31, 0)));
        check("# fail 2", Some((0, 2)));
        check("ok 12 - a wrong key is refused", None);
        check("cycle 3: 1200 acknowledged so far", None);
        check("20 cycles, 1000 writes acknowledged", None);
    }
}
