//! Words of the command line become commands.

use super::split;

#[test]
fn help_is_given_wherever_it_is_asked_for() {
    for line in ["processor", "processor help", "processor run --help", "replicate --help"] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(split(&words).map(|(command, _)| command), Ok("help"), "{line}");
    }
    assert_eq!(split(&["replicate", "--name", "x"]), Ok(("replicate", &["--name", "x"][..])));
    assert!(split(&["processor", "juggle"]).is_err());
}
