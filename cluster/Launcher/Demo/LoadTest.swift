internal import Bytes
internal import Foundation

/// What the load test does: which requests, on how many connections, for how long.
struct LoadPlan {
    let seconds: Double
    let connections = 16
    let depth = 16
    /// In per cent of all requests.
    let reads = 80
    /// The requests as they go out, one a document: made ahead, so that the test costs little.
    let gets: [[UInt8]]
    let sets: [[UInt8]]

    init(documents: DemoDocuments, vBuckets: Int, seconds: Double) {
        self.seconds = seconds
        let frame = ByteWriter()
        gets = documents.all.map { document in
            frame.removeAll()
            let vBucket = DemoLoader.vBucket(of: document.key, among: vBuckets)
            MemcachedClient.append(.get, key: document.key, vBucket: vBucket, to: frame)
            return frame.bytes
        }
        sets = documents.orders.map { document in
            frame.removeAll()
            DemoLoader.append(document, vBuckets: vBuckets, to: frame)
            return frame.bytes
        }
    }

    var description: String {
        "\(reads) % GET of all documents, \(100 - reads) % SET of orders, "
            + "\(connections) connections with \(depth) requests each on their way, "
            + "\(Int(seconds)) s"
    }
}

/// Keeps every connection busy from one thread, and measures.
///
/// A closed loop: each answer makes room for the next request, so latencies are those of a server
/// as busy as this driver can keep it, on a machine that the two of them share.
struct LoadTest {
    private let plan: LoadPlan
    private var random = SeededRandom(seed: 7)
    private var result = LoadResult()
    private var progress = ProgressLine()

    init(plan: LoadPlan) {
        self.plan = plan
    }

    mutating func run(connections: [MemcachedClient]) throws -> LoadResult {
        let lanes = connections.map { LoadConnection(client: $0) }
        var polls = lanes.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
        let began = monotonicNanoseconds()
        let length = UInt64(plan.seconds * 1e9)
        for lane in lanes {
            for _ in 0..<plan.depth { addRequest(to: lane, at: began) }
            try lane.flush()
        }
        var now = began
        var waiting = lanes.count * plan.depth
        while waiting > 0 {
            let isOver = now - began >= length
            guard poll(&polls, UInt(polls.count), 10_000) > 0 else {
                throw Refusal("The node has not answered for 10 seconds.")
            }
            now = monotonicNanoseconds()
            for (place, lane) in lanes.enumerated() where polls[place].revents != 0 {
                let answered = try lane.receive(at: now, into: &result)
                waiting -= answered
                if !isOver {
                    for _ in 0..<answered { addRequest(to: lane, at: now) }
                    waiting += answered
                }
                try lane.flush()
                polls[place].events = Int16(lane.hasMoreToSend ? POLLIN | POLLOUT : POLLIN)
            }
            progress.show(result, elapsed: now - began, of: length)
        }
        progress.finish()
        result.nanoseconds = now - began
        return result
    }

    private mutating func addRequest(to lane: LoadConnection, at now: UInt64) {
        if Int.random(in: 0..<100, using: &random) < plan.reads {
            let place = Int.random(in: 0..<plan.gets.count, using: &random)
            lane.add(plan.gets[place], .read, at: now)
        } else {
            let place = Int.random(in: 0..<plan.sets.count, using: &random)
            lane.add(plan.sets[place], .write, at: now)
        }
    }
}
