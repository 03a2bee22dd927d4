//! Tree objects of any bytes: read without a panic, and written as read.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cofferdam::git::try_tree(bytes));
