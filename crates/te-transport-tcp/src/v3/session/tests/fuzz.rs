//! Anything after a good answer.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Push(bool, bool, usize),
    Send(usize),
    Cancel(u32),
    Bytes(Vec<u8>),
    Later,
}

fn any_step() -> impl Strategy<Value = Step> {
    let id = 0u64..6;
    let framed = |frame: &Frame, payload: usize| {
        let mut bytes = Vec::new();
        encode(frame, &mut bytes);
        bytes.extend(vec![0xaa; payload]);
        Step::Bytes(bytes)
    };
    prop_oneof![
        4 => (any::<bool>(), any::<bool>(), 1usize..6).prop_map(|(w, c, n)| Step::Push(w, c, n)),
        3 => (1usize..200).prop_map(Step::Send),
        1 => (1u32..6).prop_map(Step::Cancel),
        5 => (id.clone(), 0usize..9, any::<bool>()).prop_map(move |(id, code, sum)| {
            let codes = [
                Code::Done, Code::Done, Code::Done, Code::OutOfRange, Code::TakenBack,
                Code::Cancelled, Code::Corrupt, Code::MemoryFault, Code::TimeIsUp,
            ];
            let sum = sum.then_some(1);
            framed(&Frame::Status(id, Status { sum, ..Status::plain(codes[code], 0) }), 0)
        }),
        5 => (id, 1u32..6, any::<bool>()).prop_map(move |(id, len, last)| {
            framed(&Frame::Data { id, len, last }, len as usize)
        }),
        1 => prop::collection::vec(any::<u8>(), 1..40).prop_map(Step::Bytes),
        1 => Just(Step::Later),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// FB32: nothing panics, each request ends exactly once, and none that was not sent whole is
    /// told as done.
    #[test]
    fn fb32_any_frames_end_each_request_once(
        steps in prop::collection::vec(any_step(), 0..30),
    ) {
        let mut b = bench();
        let mut ended = Vec::new();
        let mut guards = Vec::new();
        for step in steps {
            if b.machine.fate().is_some() {
                break;
            }
            match step {
                Step::Push(write, checked, len) if b.next < 6 => {
                    let op = if write { Opcode::Write } else { Opcode::Read };
                    let memory = region(&vec![1; len]);
                    b.push_job(op, &memory, checked);
                    guards.push(memory);
                }
                Step::Push(..) => {}
                Step::Send(limit) => { take_once(&mut b.machine, b.now, limit); }
                Step::Cancel(number) => b.cancel(&[number]),
                Step::Bytes(bytes) => { b.feed(&bytes); }
                Step::Later => b.later(Duration::from_secs(1)),
            }
            ended.extend(b.ended());
        }
        b.machine.abort(FaultClass::Closed, "closing");
        ended.extend(b.ended());
        let mut numbers: Vec<_> = ended.iter().map(|(number, ..)| *number).collect();
        numbers.sort_unstable();
        let all: Vec<_> = (1..b.next).collect();
        prop_assert_eq!(numbers, all);
    }
}
