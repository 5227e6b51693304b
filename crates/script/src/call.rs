//! What is to be run, and what comes out of it.

/// A script as it is stored: the text of one function.
#[derive(Debug, Clone, Copy)]
pub struct Script<'a> {
    /// Its id; stack traces name it.
    pub id: &'a str,
    /// Its body.
    pub source: &'a str,
}

/// The container that a script runs in, as the script sees it.
#[derive(Debug, Clone, Default)]
pub struct Container {
    /// `dbs/<rid>/colls/<rid>/`.
    pub self_link: String,
    /// `dbs/<name>/colls/<name>`.
    pub alt_link: String,
    /// How much the container holds, in megabytes; scripts are told.
    pub size_mb: u64,
    /// How much it may hold.
    pub max_size_mb: u64,
}

/// What a write does to its item. Triggers can ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// The item is new.
    Create,
    /// It takes the place of another.
    Replace,
    /// One or the other.
    Upsert,
    /// It goes away.
    Delete,
}

impl Verb {
    /// The word that `request.getOperationType()` gives.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Replace => "Replace",
            Self::Upsert => "Upsert",
            Self::Delete => "Delete",
        }
    }
}

/// In which role a script runs.
#[derive(Debug, Clone, Copy)]
pub enum Task<'a> {
    /// A stored procedure.
    Procedure {
        /// JSON text of an array: the positional arguments.
        arguments: &'a str,
    },
    /// A trigger before the write. Its outcome's body is what is to be written instead.
    Before {
        /// What the write does.
        verb: Verb,
        /// JSON text of the item as sent; none for a delete.
        body: Option<&'a str>,
    },
    /// A trigger after the write. Its outcome's body is what the client gets to see instead.
    After {
        /// What the write did.
        verb: Verb,
        /// JSON text of the item as sent; none for a delete.
        body: Option<&'a str>,
        /// JSON text of the item as it is stored now; none for a delete.
        stored: Option<&'a str>,
    },
}

/// One run of a script.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Which script.
    pub script: Script<'a>,
    /// In which container.
    pub container: &'a Container,
    /// In which role.
    pub task: Task<'a>,
    /// Whether `console.log` is kept; it does nothing otherwise.
    pub log: bool,
    /// Where the run takes its chance from: `Math.random`, and ids of items that have none. A new
    /// one for each run.
    pub seed: u128,
}

impl Call<'_> {
    /// How many bytes the worker is sent.
    pub(crate) fn size(&self) -> usize {
        let length = |text: Option<&str>| text.map_or(0, str::len);
        let task = match self.task {
            Task::Procedure { arguments } => arguments.len(),
            Task::Before { body, .. } => length(body),
            Task::After { body, stored, .. } => length(body) + length(stored),
        };
        self.script.source.len() + task
    }
}

/// What a script that ended well leaves behind, beside what it did through its host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// JSON text. Of a procedure: what to answer, always there. Of a trigger: the body it set, if
    /// it set one.
    pub body: Option<String>,
    /// What it logged, its calls joined without a separator.
    pub log: String,
}
