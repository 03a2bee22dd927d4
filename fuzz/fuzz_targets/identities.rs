//! Lists of identities of any bytes: read without a panic, and written as read.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cofferdam::workspace::try_identities(bytes));
