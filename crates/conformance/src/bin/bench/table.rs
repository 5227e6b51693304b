//! The result: lines of what was measured, beside what it should be.

/// One line.
#[derive(Debug, Clone)]
pub struct Line {
    /// What was measured.
    pub name: String,
    /// Ours.
    pub ours: f64,
    /// What it is held against.
    pub other: Option<f64>,
    /// What the figures count.
    pub unit: &'static str,
    /// What it should be.
    pub target: Target,
    /// More to say.
    pub note: String,
}

/// What a line should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// Ours is at least this share of the other.
    Share(f64),
    /// Ours is at most this.
    AtMost(f64),
    /// Nothing: it is told for information.
    Told,
}

impl Line {
    /// Whether it is as it should be; `None` where nothing is asked.
    pub fn holds(&self) -> Option<bool> {
        match self.target {
            Target::Share(share) => Some(self.ours >= share * self.other?),
            Target::AtMost(most) => Some(self.ours <= most),
            Target::Told => None,
        }
    }

    fn ratio(&self) -> Option<f64> {
        self.other.filter(|other| *other > 0.0).map(|other| self.ours / other)
    }

    fn print(&self) {
        let other = self.other.map_or(String::new(), figure);
        let ratio = self.ratio().map_or(String::new(), |ratio| format!("{:.0} %", ratio * 100.0));
        let target = match self.target {
            Target::Share(share) => format!("≥ {:.0} %", share * 100.0),
            Target::AtMost(most) => format!("≤ {}", figure(most)),
            Target::Told => String::new(),
        };
        let verdict = match self.holds() {
            Some(true) => "ok",
            Some(false) => "MISSED",
            None => "",
        };
        println!(
            "{:<46} {:>9} {:>9} {:<5} {ratio:>6} {target:>8} {verdict:<7}{}",
            self.name,
            figure(self.ours),
            other,
            self.unit,
            self.note
        );
    }

    fn json(&self) -> String {
        let number =
            |value: Option<f64>| value.map_or("null".to_owned(), |value| format!("{value:.3}"));
        let (target, kind) = match self.target {
            Target::Share(share) => (Some(share), "share"),
            Target::AtMost(most) => (Some(most), "at most"),
            Target::Told => (None, "none"),
        };
        format!(
            r#"{{"name":"{}","ours":{},"other":{},"unit":"{}","ratio":{},"target":{},"target_kind":"{kind}","holds":{}}}"#,
            self.name,
            number(Some(self.ours)),
            number(self.other),
            self.unit,
            number(self.ratio()),
            number(target),
            self.holds().map_or("null".to_owned(), |holds| holds.to_string())
        )
    }
}

fn figure(value: f64) -> String {
    if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Prints all lines for people, or for programs.
pub fn print(lines: &[Line], json: bool) {
    if json {
        let lines: Vec<String> = lines.iter().map(Line::json).collect();
        println!("[{}]", lines.join(",\n "));
        return;
    }
    println!("{:<46} {:>9} {:>9} {:<5} {:>6} {:>8}", "", "ours", "other", "", "ratio", "target");
    for line in lines {
        line.print();
    }
}
