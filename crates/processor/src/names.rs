//! The ids of all documents in the lease container.
//!
//! Everything of one processor begins with the same prefix: its name, then the account, database
//! and container it watches. Leases have two dots after it, so that the other libraries, which
//! look for two dots, do not meet the documents that only we know.

/// Names documents for one processor over one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    prefix: String,
}

impl Names {
    /// `prefix` is the processor's name or lease prefix; database and container are given by
    /// their resource ids, as .NET does.
    pub fn new(prefix: &str, account_host: &str, database_rid: &str, container_rid: &str) -> Self {
        Self { prefix: format!("{prefix}{account_host}_{database_rid}_{container_rid}") }
    }

    /// What all ids begin with.
    pub fn all(&self) -> String {
        format!("{}.", self.prefix)
    }

    /// A lease, by its token.
    pub fn lease(&self, token: &str) -> String {
        format!("{}..{token}", self.prefix)
    }

    /// Says that the leases were made.
    pub fn info(&self) -> String {
        format!("{}.info", self.prefix)
    }

    /// Held while leases are made.
    pub fn lock(&self) -> String {
        format!("{}.lock", self.prefix)
    }

    /// A host says here that it lives.
    pub fn host(&self, instance: &str) -> String {
        format!("{}.host.{instance}", self.prefix)
    }

    /// What the whole fleet is told.
    pub fn control(&self) -> String {
        format!("{}.control", self.prefix)
    }

    /// What a document of this id is.
    pub fn sort(&self, id: &str) -> Sort {
        let Some(rest) = id.strip_prefix(&self.prefix) else { return Sort::Other };
        match rest {
            ".info" => Sort::Info,
            ".lock" => Sort::Lock,
            ".control" => Sort::Control,
            _ if rest.starts_with("..") => Sort::Lease,
            _ if rest.starts_with(".host.") => Sort::Host,
            _ => Sort::Other,
        }
    }
}

/// The sorts of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// A lease.
    Lease,
    /// The mark of a finished bootstrap.
    Info,
    /// The bootstrap's lock.
    Lock,
    /// A host.
    Host,
    /// The control document.
    Control,
    /// Somebody else's.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_apart() {
        let names = Names::new("p", "h", "d", "c");
        for (id, sort) in [
            (names.lease("0"), Sort::Lease),
            (names.lease("-FF"), Sort::Lease),
            (names.info(), Sort::Info),
            (names.lock(), Sort::Lock),
            (names.host("a.info"), Sort::Host),
            (names.control(), Sort::Control),
            ("ph_d_c2..0".into(), Sort::Other),
        ] {
            assert_eq!(names.sort(&id), sort, "{id}");
        }
        assert_eq!(names.lease("0"), "ph_d_c..0");
    }
}
