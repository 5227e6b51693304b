//! The kinds of resources an account holds: one table.

/// What a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A database.
    Database,
    /// A container of items.
    Container,
    /// A user of a database.
    User,
    /// What a user may do with one resource.
    Permission,
    /// Provisioned throughput of a database or container.
    Offer,
    /// A stored procedure.
    StoredProcedure,
    /// A trigger.
    Trigger,
    /// A user-defined function.
    UserDefinedFunction,
    /// A client encryption key of a database.
    ClientEncryptionKey,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Database,
        Self::Container,
        Self::User,
        Self::Permission,
        Self::Offer,
        Self::StoredProcedure,
        Self::Trigger,
        Self::UserDefinedFunction,
        Self::ClientEncryptionKey,
    ];

    /// The word before its name in a link.
    pub fn segment(self) -> &'static str {
        self.row().0
    }

    /// What it belongs to; `None` is the account.
    pub fn owner(self) -> Option<Kind> {
        self.row().1
    }

    /// What people call it.
    pub fn noun(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (&'static str, Option<Kind>, &'static str) {
        match self {
            Self::Database => ("dbs", None, "database"),
            Self::Container => ("colls", Some(Self::Database), "container"),
            Self::User => ("users", Some(Self::Database), "user"),
            Self::Permission => ("permissions", Some(Self::User), "permission"),
            Self::Offer => ("offers", None, "offer"),
            Self::StoredProcedure => ("sprocs", Some(Self::Container), "stored procedure"),
            Self::Trigger => ("triggers", Some(Self::Container), "trigger"),
            Self::UserDefinedFunction => ("udfs", Some(Self::Container), "user-defined function"),
            Self::ClientEncryptionKey => {
                ("clientencryptionkeys", Some(Self::Database), "client encryption key")
            }
        }
    }
}
