//! Resource ids: the `_rid` of everything, in the layout that clients decode.
//!
//! Base64 with `-` in place of `/`, padding kept. A database is 4 bytes; a container or user
//! is its database and 4 more, the top bit telling them apart; what lies in those is 16.

use std::fmt;

use base64::Engine as _;
use base64::alphabet::Alphabet;
use base64::engine::{GeneralPurpose, general_purpose::PAD};

const ALPHABET: Alphabet =
    match Alphabet::new("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-") {
        Ok(alphabet) => alphabet,
        Err(_) => panic!("64 different characters"),
    };
const BASE64: GeneralPurpose = GeneralPurpose::new(&ALPHABET, PAD);
const CONTAINER_BIT: u32 = 1 << 31;
const ORDINAL_BITS: u32 = 60;
const ORDINAL_MASK: u64 = (1 << ORDINAL_BITS) - 1;

/// Id of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatabaseRid(pub u32);

/// Id of a container: its database, and its number there, below 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerRid {
    /// The database.
    pub database: u32,
    /// The number within the database.
    pub container: u32,
}

/// Id of a user: its database, and its number there, below 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserRid {
    /// The database.
    pub database: u32,
    /// The number within the database.
    pub user: u32,
}

/// Id of an item. Ordinals grow with creation: clients break ties of `ORDER BY` by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemRid {
    /// The container.
    pub container: ContainerRid,
    /// The number within the container, below 2^60.
    pub ordinal: u64,
}

/// Id of anything that lies in a container or belongs to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChildRid {
    /// The bytes of the container or user.
    pub owner: [u8; 8],
    /// What it is.
    pub kind: ChildKind,
    /// The number within the owner and kind, below 2^60.
    pub ordinal: u64,
}

/// What lies in a container or belongs to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChildKind {
    /// An item of a container.
    Document,
    /// A conflict of a container.
    Conflict,
    /// A partition of a container.
    PartitionKeyRange,
    /// A user-defined function of a container.
    Udf,
    /// A trigger of a container.
    Trigger,
    /// A stored procedure of a container.
    StoredProcedure,
    /// A permission of a user. Shares the nibble of items, from which its owner tells it apart.
    Permission,
}

/// Id of an offer, below 2^24.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OfferRid(pub u32);

impl DatabaseRid {
    /// The bytes behind the text.
    pub fn to_bytes(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        decode(text).map(u32::from_be_bytes).map(Self)
    }
}

impl ContainerRid {
    /// The bytes behind the text.
    pub fn to_bytes(self) -> [u8; 8] {
        pair(self.database, self.container | CONTAINER_BIT)
    }

    /// The id of its database.
    pub fn database_rid(self) -> DatabaseRid {
        DatabaseRid(self.database)
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_bytes(decode(text)?)
    }

    fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        let (database, number) = unpair(bytes);
        let container = number & !CONTAINER_BIT;
        (number & CONTAINER_BIT != 0).then_some(Self { database, container })
    }
}

impl UserRid {
    /// The bytes behind the text.
    pub fn to_bytes(self) -> [u8; 8] {
        pair(self.database, self.user & !CONTAINER_BIT)
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (database, user) = unpair(decode(text)?);
        (user & CONTAINER_BIT == 0).then_some(Self { database, user })
    }
}

impl ItemRid {
    /// The bytes behind the text.
    pub fn to_bytes(self) -> [u8; 16] {
        self.child().to_bytes()
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let child = ChildRid::parse(text)?;
        let container = ContainerRid::from_bytes(child.owner)?;
        (child.kind == ChildKind::Document).then_some(Self { container, ordinal: child.ordinal })
    }

    fn child(self) -> ChildRid {
        let owner = self.container.to_bytes();
        ChildRid { owner, kind: ChildKind::Document, ordinal: self.ordinal }
    }
}

impl ChildRid {
    /// The bytes behind the text.
    pub fn to_bytes(self) -> [u8; 16] {
        let tail = self.ordinal & ORDINAL_MASK | u64::from(self.kind.nibble()) << ORDINAL_BITS;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.owner);
        bytes[8..].copy_from_slice(&tail.to_le_bytes());
        bytes
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; 16] = decode(text)?;
        let (owner, tail) = bytes.split_at(8);
        let owner: [u8; 8] = owner.try_into().ok()?;
        let tail = u64::from_le_bytes(tail.try_into().ok()?);
        let in_container = ContainerRid::from_bytes(owner).is_some();
        let kind = ChildKind::of_nibble((tail >> ORDINAL_BITS) as u8, in_container)?;
        Some(Self { owner, kind, ordinal: tail & ORDINAL_MASK })
    }
}

impl ChildKind {
    fn nibble(self) -> u8 {
        match self {
            Self::Document | Self::Permission => 0,
            Self::Conflict => 4,
            Self::PartitionKeyRange => 5,
            Self::Udf => 6,
            Self::Trigger => 7,
            Self::StoredProcedure => 8,
        }
    }

    fn of_nibble(nibble: u8, in_container: bool) -> Option<Self> {
        match (nibble, in_container) {
            (0, false) => Some(Self::Permission),
            (0, true) => Some(Self::Document),
            (4, true) => Some(Self::Conflict),
            (5, true) => Some(Self::PartitionKeyRange),
            (6, true) => Some(Self::Udf),
            (7, true) => Some(Self::Trigger),
            (8, true) => Some(Self::StoredProcedure),
            _ => None,
        }
    }
}

impl OfferRid {
    /// The bytes behind the text.
    pub fn to_bytes(self) -> [u8; 3] {
        let [_, a, b, c] = self.0.to_be_bytes();
        [a, b, c]
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let [a, b, c] = decode(text)?;
        Some(Self(u32::from_be_bytes([0, a, b, c])))
    }
}

/// Whether a path segment could be the id of a database, container, user or child of those.
/// A name of this shape is possible, so the catalog decides.
pub fn looks_like_rid(segment: &str) -> bool {
    decode::<4>(segment).is_some()
        || decode::<8>(segment).is_some()
        || decode::<16>(segment).is_some()
}

macro_rules! text {
    ($($name:ident)+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut buffer = [0; TEXT_BYTES];
                f.write_str(encode(&self.to_bytes(), &mut buffer))
            }
        }

        impl $name {
            /// Appends the text.
            pub fn write_into(self, out: &mut Vec<u8>) {
                let mut buffer = [0; TEXT_BYTES];
                out.extend_from_slice(encode(&self.to_bytes(), &mut buffer).as_bytes());
            }
        }
    )+};
}

text! { DatabaseRid ContainerRid UserRid ItemRid ChildRid OfferRid }

/// Length of the longest id.
const TEXT_BYTES: usize = 24;

fn encode<'a>(bytes: &[u8], buffer: &'a mut [u8; TEXT_BYTES]) -> &'a str {
    let length = BASE64.encode_slice(bytes, buffer).expect("16 bytes make 24 characters");
    std::str::from_utf8(&buffer[..length]).expect("base64 is ASCII")
}

fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N.div_ceil(3) * 4 {
        return None;
    }
    // The decoder counts in whole groups, so its buffer is a little larger than the result.
    let mut buffer = [0; 18];
    let length = BASE64.decode_slice(text, &mut buffer).ok()?;
    buffer.get(..length)?.try_into().ok()
}

fn pair(first: u32, second: u32) -> [u8; 8] {
    (u64::from(first) << 32 | u64::from(second)).to_be_bytes()
}

fn unpair(bytes: [u8; 8]) -> (u32, u32) {
    let both = u64::from_be_bytes(bytes);
    ((both >> 32) as u32, both as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_service() {
        let container = ContainerRid { database: 1, container: 1 };
        assert_eq!(DatabaseRid(1).to_string(), "AAAAAQ==");
        assert_eq!(container.to_string(), "AAAAAYAAAAE=");
        assert_eq!(ItemRid { container, ordinal: 1 }.to_string(), "AAAAAYAAAAEBAAAAAAAAAA==");
        assert_eq!(OfferRid(0xFFFFFF).to_string(), "----");
    }

    #[test]
    fn every_id_reads_back() {
        let container = ContainerRid { database: 0xFFEE_DDCC, container: 77 };
        let user = UserRid { database: 9, user: 3 };
        let item = ItemRid { container, ordinal: ORDINAL_MASK };
        assert_eq!(DatabaseRid::parse(&DatabaseRid(5).to_string()), Some(DatabaseRid(5)));
        assert_eq!(ContainerRid::parse(&container.to_string()), Some(container));
        assert_eq!(UserRid::parse(&user.to_string()), Some(user));
        assert_eq!(ItemRid::parse(&item.to_string()), Some(item));
        assert_eq!(OfferRid::parse(&OfferRid(70_000).to_string()), Some(OfferRid(70_000)));
        for kind in [
            ChildKind::Document,
            ChildKind::Conflict,
            ChildKind::PartitionKeyRange,
            ChildKind::Udf,
            ChildKind::Trigger,
            ChildKind::StoredProcedure,
        ] {
            let child = ChildRid { owner: container.to_bytes(), kind, ordinal: 12 };
            assert_eq!(ChildRid::parse(&child.to_string()), Some(child));
        }
        let permission =
            ChildRid { owner: user.to_bytes(), kind: ChildKind::Permission, ordinal: 1 };
        assert_eq!(ChildRid::parse(&permission.to_string()), Some(permission));
        assert_eq!(ItemRid::parse(&permission.to_string()), None);
    }

    #[test]
    fn ids_of_one_kind_are_not_read_as_another() {
        let container = ContainerRid { database: 1, container: 1 };
        let range = ChildRid {
            owner: container.to_bytes(),
            kind: ChildKind::PartitionKeyRange,
            ordinal: 0,
        };
        assert_eq!(range.to_bytes()[15], 0x50);
        assert_eq!(ItemRid::parse(&range.to_string()), None);
        assert_eq!(UserRid::parse(&container.to_string()), None);
        assert_eq!(ContainerRid::parse(&UserRid { database: 1, user: 1 }.to_string()), None);
        assert_eq!(DatabaseRid::parse(&container.to_string()), None);
    }

    #[test]
    fn names_seldom_look_like_ids() {
        assert!(looks_like_rid("AAAAAQ=="));
        assert!(looks_like_rid("AAAAAYAAAAE="));
        for name in ["", "orders", "customers", "AAAAAQ", "AAAAA/==", "é=======", "AAAAAR=="] {
            assert!(!looks_like_rid(name), "{name}");
        }
    }
}
