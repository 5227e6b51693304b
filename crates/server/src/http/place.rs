//! The requests of a connection, answered one after the other in the same place.
//!
//! The future of an answer has room for whatever it may come to need, which is a few kilobytes. Handed to
//! hyper as it is, all of that is copied to where it stays. In a place of our own only that is written which
//! it begins with; and where the last answer was made, the next one can be.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::service::Service;

/// Begins answers, each in a place that is free.
pub struct InPlace<F, B> {
    begin: B,
    free: Arc<Free<F>>,
}

/// Room for one future.
type Place<F> = Pin<Box<Option<F>>>;

/// A place where nothing is made now. Requests over HTTP/1 follow each other; of those that do not, all but
/// one get a place of their own.
struct Free<F>(Mutex<Option<Place<F>>>);

impl<F> Free<F> {
    fn take(&self) -> Option<Place<F>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, place: Place<F>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }
}

impl<F, B> InPlace<F, B> {
    /// For answers that begin so.
    pub fn new(begin: B) -> Self {
        Self { begin, free: Arc::new(Free(Mutex::new(None))) }
    }
}

impl<R, F, B, T, E> Service<R> for InPlace<F, B>
where
    B: Fn(R) -> F,
    F: Future<Output = Result<T, E>>,
{
    type Response = T;
    type Error = E;
    type Future = Placed<F>;

    fn call(&self, request: R) -> Placed<F> {
        let mut place = self.free.take().unwrap_or_else(|| Box::pin(None));
        place.set(Some((self.begin)(request)));
        Placed { place: Some(place), free: self.free.clone() }
    }
}

/// An answer in the making, in its place.
pub struct Placed<F> {
    /// Gone once it is made.
    place: Option<Place<F>>,
    free: Arc<Free<F>>,
}

impl<F: Future> Future for Placed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let answer = self.place.as_mut().and_then(|place| place.as_mut().as_pin_mut());
        let polled = answer.expect("nobody asks after the answer").poll(cx);
        if polled.is_ready()
            && let Some(mut place) = self.place.take()
        {
            place.set(None);
            self.free.put(place);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::pin;
    use std::task::Waker;

    use tokio::sync::oneshot;

    use super::*;

    async fn answer(asked: oneshot::Receiver<u32>) -> Result<u32, Infallible> {
        Ok(asked.await.unwrap_or(0))
    }

    fn is_pending<F: Future>(future: Pin<&mut F>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    fn address<F>(placed: &Placed<F>) -> *const Option<F> {
        &**placed.place.as_ref().unwrap()
    }

    #[tokio::test]
    async fn answers_that_follow_each_other_share_a_place() {
        let service = InPlace::new(answer);
        let mut places = Vec::new();
        for n in 0..3 {
            let (tell, asked) = oneshot::channel();
            let mut placed = pin!(service.call(asked));
            places.push(address(&placed));
            assert!(is_pending(placed.as_mut()));
            tell.send(n).unwrap();
            assert_eq!(placed.await, Ok(n));
        }
        assert!(places.iter().all(|place| *place == places[0]));
    }

    #[tokio::test]
    async fn those_at_the_same_time_do_not() {
        let service = InPlace::new(answer);
        let (channels, asked): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
        let placed: Vec<_> = asked.into_iter().map(|asked| service.call(asked)).collect();
        for (n, tell) in channels.into_iter().enumerate() {
            tell.send(n as u32).unwrap();
        }
        for (n, placed) in placed.into_iter().enumerate().rev() {
            assert_eq!(placed.await, Ok(n as u32));
        }
    }

    #[tokio::test]
    async fn one_that_is_given_up_is_dropped() {
        let service = InPlace::new(answer);
        let (tell, asked) = oneshot::channel();
        let mut placed = Box::pin(service.call(asked));
        assert!(is_pending(placed.as_mut()));
        drop(placed);
        assert!(tell.is_closed());
        let (tell, asked) = oneshot::channel();
        tell.send(7).unwrap();
        assert_eq!(service.call(asked).await, Ok(7));
    }
}
