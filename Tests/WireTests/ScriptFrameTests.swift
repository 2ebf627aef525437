import Bytes
import Testing
import Wire

/// Frames between a node and its script process.
@Suite struct ScriptFrameTests {
    @Test func scriptRequestsSurviveTheWire() throws {
        let source = [UInt8]("function (doc) {}".utf8)
        let library = [UInt8]("x = 1;".utf8)
        let stream = written { output in
            source.withView { source in
                library.withView { library in
                    ScriptRequest.appendDefinition(
                        ScriptDefinition(
                            function: 7,
                            use: .reduce,
                            timeoutMilliseconds: 10,
                            source: source,
                            library: library
                        ),
                        batch: 1,
                        to: output
                    )
                }
                ScriptRequest.appendForget(function: 9, batch: 2, to: output)
            }
        }
        let requests = try requests(in: stream) { batch, request in
            switch request {
            case .define(let definition):
                #expect(definition.function == 7 && definition.use == .reduce)
                #expect(definition.timeoutMilliseconds == 10)
                #expect(definition.source.bytes == source && definition.library.bytes == library)
            case .forget(let function): #expect(function == 9)
            case .execute: Issue.record("there is no batch")
            }
        }
        #expect(requests == [1, 2])
    }

    @Test func scriptBatchHasEveryItemAndTheTextOfAll() throws {
        let items = (0..<20).map { index in
            (
                UInt64.max - UInt64(index), [UInt8]("{\"id\":\"\(index)\"}".utf8),
                [UInt8](String(repeating: "1", count: index + 1).utf8)
            )
        }
        let stream = written { output in
            var encoder = ScriptBatchEncoder(.map, functions: [3, 5], batch: 4, to: output)
            for (stamp, first, second) in items {
                first.withView { first in
                    second.withView { encoder.append(stamp: stamp, first: first, second: $0) }
                }
            }
            let expected = encoder.byteCount
            encoder.finish()
            #expect(output.count == expected)
        }
        _ = try requests(in: stream) { batch, request in
            guard case .execute(let batch) = request else {
                Issue.record("a batch is expected")
                return
            }
            #expect(batch.functions == [3, 5] && batch.count == items.count)
            for (index, item) in batch.items().enumerated() {
                #expect(item.stamp == items[index].0 && batch.stamp(index) == item.stamp)
                #expect(item.first.bytes == items[index].1)
                #expect(item.second.bytes == items[index].2)
            }
            let texts = items.map { String(decoding: $0.1 + [44] + $0.2, as: UTF8.self) }
            #expect(batch.text.text == "[" + texts.joined(separator: ",") + "]")
        }
    }

    @Test func scriptFramesAreFoundForEveryCutOfTheStream() {
        let stream = written { output in
            for function in 0..<3 as Range<UInt32> {
                ScriptRequest.appendForget(function: function, batch: function, to: output)
            }
        }
        for cut in 0...stream.count {
            Array(stream[..<cut]).withView { view in
                var offset = 0
                var count = 0
                decoding: while true {
                    let rest = view.dropFirst(offset)
                    switch ScriptFrame.next(in: rest, bytesMax: 100) {
                    case .frame(let frame):
                        #expect(frame.batch == UInt32(count))
                        offset += frame.byteCount
                        count += 1
                    case .incomplete(let needed):
                        #expect(needed > rest.count)
                        break decoding
                    case .invalid:
                        Issue.record("cut \(cut): a valid frame was refused")
                        break decoding
                    }
                }
                #expect(count == cut / 13)
            }
        }
    }

    @Test func scriptFrameOfInvalidLengthOrKindIsRefused() {
        for text in ["00000004 0100000000", "7fffffff 0100000000", "00000005 1100000000"] {
            hex(text).withView { view in
                guard case .invalid = ScriptFrame.next(in: view, bytesMax: 100) else {
                    Issue.record("\(text) must be refused")
                    return
                }
            }
        }
    }

    /// Bytes of a process that is not trusted, and of a node of another build.
    @Test func damagedScriptFramesNeverCrashTheDecoder() {
        let seed: UInt64 = 17
        var random = SeededRandom(seed: seed)
        let valid = ScriptBatchCheckTests.replies { encoder, output in
            let start = encoder.beginRows(function: 1)
            [UInt8]("[1]".utf8).withView { encoder.appendRow(item: 0, key: $0, value: $0) }
            encoder.end(start)
            encoder.retiring()
            ScriptRequest.appendForget(function: 9, batch: 2, to: output)
            var batch = ScriptBatchEncoder(.reduce, functions: [3], batch: 4, to: output)
            [UInt8]("[1]".utf8).withView { batch.append(stamp: 0, first: $0, second: $0) }
            batch.finish()
        }
        var decoded = 0
        for _ in 0..<20_000 {
            var bytes = valid
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                bytes[place] = UInt8.random(in: 0...255, using: &random)
            }
            bytes.withView { view in
                var offset = 0
                while case .frame(let frame) = ScriptFrame.next(
                    in: view.dropFirst(offset),
                    bytesMax: ScriptLimits.replyBytesMax
                ) {
                    offset += frame.byteCount
                    if let request = ScriptRequest(frame), case .execute(let batch) = request {
                        decoded += batch.items().count
                    }
                    var check = ScriptBatchCheck(.map, functions: [1], count: 1)
                    if let reply = ScriptReply(frame) {
                        _ = check.accept(reply) { _ in true }
                    }
                }
            }
        }
        #expect(decoded > 10_000, "seed \(seed)")
    }

    /// Decodes all frames; returns their batches.
    private func requests(
        in stream: [UInt8],
        _ body: (UInt32, ScriptRequest) -> Void
    ) throws -> [UInt32] {
        try stream.withView { view in
            var offset = 0
            var batches: [UInt32] = []
            while case .frame(let frame) = ScriptFrame.next(
                in: view.dropFirst(offset),
                bytesMax: ScriptLimits.requestBytesMax
            ) {
                body(frame.batch, try #require(ScriptRequest(frame)))
                batches.append(frame.batch)
                offset += frame.byteCount
            }
            #expect(offset == view.count)
            return batches
        }
    }
}
