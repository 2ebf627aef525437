import Bytes
import TestWorld

/// A client that streams the changes of a bucket (DCP or TAP), while another client writes.
///
/// The input is two bytes and a list of steps. The first byte chooses the bucket, whether a
/// producer is opened at once, and the pieces of the requests; the second is the seed of the events
/// outside the connections. Each step is a few bytes: a request of the streaming client, a write, or
/// an event (`ChangesSession`).
///
/// - Every answer belongs to one request; every request has its answer, or the connection is closed.
/// - What a stream sends keeps the rules of the protocol (`ChangesChecker`): no change that a client
///   may not see, no gap and no repeat, and in the end the stream has every visible change.
/// - The output of a turn is bounded, and the memory account is exact.
final class ChangesTarget {
    private let service = FuzzedService()

    func run(_ input: ByteView) {
        guard input.count > 2 else { return }
        let session = ChangesSession(service, mode: input[0], events: input[1])
        var source = ByteSource(bytes: input.dropFirst(2).bytes[...])
        var left = 250
        while !source.isEmpty, left > 0, !session.isClosed {
            session.step(&source)
            left -= 1
        }
        session.finish()
    }
}
