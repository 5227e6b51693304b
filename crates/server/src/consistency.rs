//! The five consistency levels. With one region they differ in name and in charge only.

/// A consistency level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// Reads see every acknowledged write.
    Strong,
    /// Reads lag behind by a bound.
    BoundedStaleness,
    /// A client sees its own writes.
    Session,
    /// Writes are seen in order.
    ConsistentPrefix,
    /// Writes are seen some day.
    Eventual,
}

impl Consistency {
    /// From the strongest to the weakest.
    pub const ALL: [Self; 5] = [
        Self::Strong,
        Self::BoundedStaleness,
        Self::Session,
        Self::ConsistentPrefix,
        Self::Eventual,
    ];

    /// How the protocol spells it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Strong => "Strong",
            Self::BoundedStaleness => "BoundedStaleness",
            Self::Session => "Session",
            Self::ConsistentPrefix => "ConsistentPrefix",
            Self::Eventual => "Eventual",
        }
    }

    /// The level of a word, in any case.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.word().eq_ignore_ascii_case(word))
    }

    /// Grows with what is promised.
    pub fn strength(self) -> u8 {
        match self {
            Self::Strong => 4,
            Self::BoundedStaleness => 3,
            Self::Session => 2,
            Self::ConsistentPrefix => 1,
            Self::Eventual => 0,
        }
    }

    /// Reads that ask two replicas cost double.
    pub fn asks_two_replicas(self) -> bool {
        matches!(self, Self::Strong | Self::BoundedStaleness)
    }
}
