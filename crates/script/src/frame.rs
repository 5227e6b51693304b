//! Fields, one after the other, in the bytes that travel between pool and worker.
//!
//! Either side reads what the other wrote as if a stranger had written it: a field that is not
//! there or too long is an error, never a panic.

/// The bytes are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Writes fields.
#[derive(Debug, Default)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub(crate) fn with(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(crate) fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    pub(crate) fn number(&mut self, number: u32) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn long(&mut self, number: u64) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn float(&mut self, number: f64) -> &mut Self {
        self.long(number.to_bits())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(length(bytes.len()));
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn optional(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.byte(1).text(text),
            None => self.byte(0),
        }
    }

    /// A list in JSON, of texts that are JSON each.
    pub(crate) fn json_list<T: AsRef<[u8]>>(&mut self, items: &[T]) -> &mut Self {
        let commas = items.len().saturating_sub(1);
        let total: usize = items.iter().map(|item| item.as_ref().len()).sum();
        self.number(length(total + commas + 2)).byte(b'[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.byte(b',');
            }
            self.0.extend_from_slice(item.as_ref());
        }
        self.byte(b']')
    }

    pub(crate) fn append(&mut self, fields: &Self) -> &mut Self {
        self.raw(&fields.0)
    }

    /// Fields that have been written elsewhere.
    pub(crate) fn raw(&mut self, fields: &[u8]) -> &mut Self {
        self.0.extend_from_slice(fields);
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets what was written after so many bytes.
    pub(crate) fn cut(&mut self, length: usize) {
        self.0.truncate(length);
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Frames are limited far below what four bytes can count (see `pipe`).
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Reads fields in the order in which they were written.
#[derive(Debug)]
pub(crate) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        self.fixed::<1>().map(|[byte]| byte)
    }

    pub(crate) fn number(&mut self) -> Result<u32, Malformed> {
        self.fixed().map(u32::from_le_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<u64, Malformed> {
        self.fixed().map(u64::from_le_bytes)
    }

    pub(crate) fn float(&mut self) -> Result<f64, Malformed> {
        self.long().map(f64::from_bits)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()? as usize;
        let (head, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    pub(crate) fn string(&mut self) -> Result<String, Malformed> {
        self.text().map(str::to_owned)
    }

    pub(crate) fn optional(&mut self) -> Result<Option<&'a str>, Malformed> {
        match self.byte()? {
            0 => Ok(None),
            1 => self.text().map(Some),
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were_written() {
        let mut to = Encoder::default();
        to.byte(7).number(8).long(9).float(0.1).text("é").optional(None).optional(Some("x"));
        to.json_list(&["1", "[2]"]).json_list::<&str>(&[]);
        let bytes = to.take();
        let mut from = Decoder::new(&bytes);
        assert_eq!((from.byte(), from.number(), from.long()), (Ok(7), Ok(8), Ok(9)));
        assert_eq!((from.float(), from.text()), (Ok(0.1), Ok("é")));
        assert_eq!((from.optional(), from.optional()), (Ok(None), Ok(Some("x"))));
        assert_eq!((from.text(), from.text()), (Ok("[1,[2]]"), Ok("[]")));
        assert!(from.is_empty());
    }

    #[test]
    fn what_is_cut_off_is_refused_at_every_place() {
        let mut to = Encoder::default();
        to.number(3).text("abc").optional(Some("de")).long(1);
        let bytes = to.take();
        for end in 0..bytes.len() {
            let mut from = Decoder::new(&bytes[..end]);
            let read = from.number().is_ok()
                && from.text().is_ok()
                && from.optional().is_ok()
                && from.long().is_ok();
            assert!(!read, "cut at {end}");
        }
    }
}
