import Bytes
import TestWorld

/// A whole data service behind one connection that receives the fuzzer's bytes as a stream.
///
/// The input is three bytes and a stream. The first byte chooses the kind of client, and whether
/// the stream is sent as it is or made into requests (`RequestMaker`). The second is the seed of
/// the pieces in which the stream is sent, the third the seed of the events between them: values
/// are ejected, lanes are delayed, buckets are flushed or deleted.
///
/// - Every answer belongs to one request; every complete request that is not quiet has its answer.
/// - Answers are complete and bounded, no request waits for ever, and the memory account is exact.
final class DispatcherTarget {
    private let service = FuzzedService()
    private var random = SeededRandom(seed: 0)
    /// Makes well-formed requests from input bytes.
    private let maker = RequestMaker()

    func run(_ input: ByteView) {
        guard input.count > 3 else { return }
        let mode = input[0]
        random = SeededRandom(seed: UInt64(input[1]))
        var events = SeededRandom(seed: UInt64(input[2]))
        let bucketName = mode & 1 == 0 ? "memory" : "disk"
        let raw = input.dropFirst(3)
        let stream = mode & 0x40 == 0 ? raw.bytes : maker.stream(from: raw)
        let isMemcachedListener = mode & 0x08 != 0
        let client = Client(service.world, isMemcachedListener: isMemcachedListener)
        if mode & 0x02 == 0, !isMemcachedListener {
            service.logIn(client, bucketName, features: mode & 0x04 != 0 ? [0x0e] : [])
        }
        var rest = stream[...]
        while !rest.isEmpty, !client.isClosed {
            let most = mode & 0x10 == 0 ? 4_096 : 64
            let count = min(rest.count, Int.random(in: 1...most, using: &random))
            client.send(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
            if mode & 0x20 != 0 { service.disturb(bucketName, client, &events) }
        }
        finish(client, stream)
    }

    private func finish(_ client: Client, _ stream: [UInt8]) {
        service.finishWork()
        client.settle()
        let asked = AskedRequests(stream)
        asked.check(client.messages().filter { !$0.isRequest }, isClosed: client.isClosed)
        service.check(client)
        service.checkAtRest()
    }
}
