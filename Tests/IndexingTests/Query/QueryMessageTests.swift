import Bytes
import Indexing
import Testing
import Vocabulary

@Suite struct QueryMessageTests {
    static func signature(_ byte: UInt8) throws -> IndexSignature {
        try #require(IndexSignature([UInt8](repeating: byte, count: 16)))
    }

    static func requests() throws -> [QueryRequest] {
        let choices = [
            IndexChoice(current: try signature(1)),
            IndexChoice(
                current: try signature(1),
                previous: try signature(2),
                usesPrevious: true
            ),
        ]
        let queries: [(String, Bool)] = [
            ("", false), ("keys=[1,2,1]&descending=true&limit=3&skip=4", false),
            ("group=true&startkey=[1]", true), ("group_level=300&stale=false", true), ("", true),
        ]
        return try queries.flatMap { query, hasReduce in
            let plan = try QueryPlanTests.plan(query, hasReduce: hasReduce)
            return try choices.map { choice in
                var request = QueryRequest(
                    bucket: "travel",
                    index: QueryRequest.IndexSelection(
                        choice: choice,
                        slot: hasReduce ? try signature(3) : nil,
                        collation: "153.120/15.0"
                    ),
                    scan: plan.scan,
                    freshness: plan.freshness
                )
                request.mapRevision = 1 << 40
                request.vBuckets = [0, 7, 130, 1_023].map { VBucketID($0) }
                request.startMillisecondsMax = 60_000
                return request
            }
        }
    }

    static func replies() throws -> [QueryReply] {
        let rows = [
            TestRow(keyNumber: 0, vBucket: 1_023, key: [0x10, 0, 0], value: Array("null".utf8)),
            TestRow(keyNumber: 300, vBucket: 0, key: [], value: []),
        ]
        return [
            .start(QueryStart(indexRows: .max, builtPercent: 43)),
            .start(
                QueryStart(
                    indexRows: 7,
                    builtPercent: 99,
                    missing: [0, 200, 1_023].map { VBucketID($0) }
                )
            ), .rows(try RowBatch.of(rows)),
            .groups(try RowBatch.of([TestRow(key: [], value: [0x31])])), .rows(try RowBatch.of([])),
            .end, .failed("Builtin _sum function requires map values to be numbers"),
            .moved(1 << 63), .notReady(try signature(9)),
        ]
    }

    private static func request(_ bytes: [UInt8]) throws(CodingFailure) -> QueryRequest {
        try QueryRequest(decoding: bytes, skipsRest: true)
    }

    private static func reply(_ bytes: [UInt8]) throws(CodingFailure) -> QueryReply {
        try QueryReply(decoding: bytes, skipsRest: true)
    }

    @Test func requestIsReadAsItWasWritten() throws {
        for request in try Self.requests() {
            #expect(try Self.request(request.encoded) == request)
            // A later release adds a field.
            #expect(try Self.request(request.encoded + [1, 2, 3]) == request)
        }
    }

    @Test func replyIsReadAsItWasWritten() throws {
        for reply in try Self.replies() {
            #expect(try Self.reply(reply.encoded) == reply)
        }
    }

    @Test func rowsAreReadAsTheyWereWritten() throws {
        let rows = (0..<100).map { number in
            TestRow(
                keyNumber: number / 10,
                vBucket: UInt16(number),
                key: [UInt8](repeating: UInt8(number), count: number * 5),
                value: [UInt8](repeating: 0x20, count: number * 3)
            )
        }
        #expect(try RowBatch.of(rows).rows == rows)
    }

    @Test func batchIsFullAtItsTarget() throws {
        var writer = RowBatchWriter()
        let key = [UInt8](repeating: 0x30, count: 1_000)
        while !writer.isFull {
            key.borrowed { writer.append(keyNumber: 0, vBucket: VBucketID(1), key: $0, value: $0) }
        }
        #expect(writer.count == 33)
        let first = writer.finish()
        #expect(first.count >= RowBatch.bytesTarget && first.count < RowBatch.bytesTarget + 3_000)
        #expect(writer.isEmpty && !writer.isFull)
        #expect(try RowBatch(decoding: writer.finish()).isEmpty)
        #expect(try RowBatch(decoding: first).count == 33)
    }

    /// Only whole messages are messages.
    @Test func cutMessageIsRefused() throws {
        for request in try Self.requests() {
            let bytes = request.encoded
            for count in bytes.indices {
                #expect(throws: CodingFailure.self) { try Self.request(Array(bytes[..<count])) }
            }
        }
        for reply in try Self.replies() {
            let bytes = reply.encoded
            for count in bytes.indices {
                #expect(throws: CodingFailure.self) { try Self.reply(Array(bytes[..<count])) }
            }
        }
    }

    @Test func invalidFieldIsNamed() throws {
        func expect(_ bytes: [UInt8], _ reason: CodingFailure.Reason, _ field: String) {
            do throws(CodingFailure) {
                _ = try Self.reply(bytes)
                Issue.record("\(bytes) are a reply")
            } catch {
                #expect(error.reason == reason)
                #expect(error.field == field)
            }
        }
        expect([99], .unknownKind(99), "reply")
        expect([1, 0, 101], .invalid, "progress")
        // More rows than bytes could hold: refused before memory is reserved for them.
        expect([2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], .cutShort, "rows")
        expect([2, 0, 0, 0, 1, 0, 0x80, 0x08, 0, 0], .invalid, "row")
        expect([1, 0, 100, 2, 3, 3], .invalid, "missing vBuckets")
        var request = try #require(try Self.requests().first)
        request.vBuckets = [VBucketID(3), VBucketID(3)]
        #expect(throws: CodingFailure.self) { try Self.request(request.encoded) }
    }

    /// A message that is accepted has every field: written and read again, it is the same message.
    @Test(arguments: 1...10 as ClosedRange<UInt64>)
    func changedBytesAreRefusedOrDecodeToAConsistentMessage(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let requests = try Self.requests().map(\.encoded)
        let replies = try Self.replies().map(\.encoded)
        var refused = 0
        for _ in 0..<2_000 {
            let isRequest = Bool.random(using: &random)
            let message = (isRequest ? requests : replies).randomElement(using: &random)
            var bytes = try #require(message)
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: bytes.indices, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.insert(UInt8.random(in: 0...255, using: &random), at: place)
                default: if bytes.count > 1 { bytes.remove(at: place) }
                }
            }
            do {
                if isRequest {
                    let request = try Self.request(bytes)
                    #expect(try Self.request(request.encoded) == request)
                } else {
                    let reply = try Self.reply(bytes)
                    #expect(try Self.reply(reply.encoded) == reply)
                    guard case .rows(let batch) = reply else { continue }
                    #expect(try RowBatch.of(batch.rows).rows == batch.rows)
                }
            } catch is CodingFailure {
                refused += 1
            }
        }
        #expect(refused > 200 && refused < 1_800)
    }
}
