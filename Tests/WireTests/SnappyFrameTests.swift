import Bytes
import Testing
import Vocabulary
import Wire

/// Frames whose values are inflated or compressed.
@Suite struct SnappyFrameTests {
    private static let text = Array(String(repeating: "divan keeps sheets. ", count: 300).utf8)

    private func withView<Result>(_ bytes: [UInt8], _ body: (ByteView) throws -> Result) rethrows
        -> Result
    {
        try bytes.withUnsafeBytes { try body(ByteView($0)) }
    }

    /// Appends an answer of a document, with this key.
    private func append(_ value: [UInt8], key: [UInt8] = [], to writer: ByteWriter) {
        withView(value) { value in
            withView(key) { key in
                ResponseEncoder.append(
                    .success,
                    to: writer,
                    replyTo: ReplyTo(.get, opaque: 7),
                    datatype: .json,
                    cas: CAS(5),
                    extras: ByteView.empty,
                    key: key,
                    value: value
                )
            }
        }
    }

    /// The frames of a writer: datatype, key and value each.
    private func frames(_ writer: ByteWriter) throws -> [(Datatype, [UInt8], [UInt8])] {
        var (found, place) = ([(Datatype, [UInt8], [UInt8])](), 0)
        while place < writer.count {
            guard case .frame(let frame) = FrameDecoder().next(in: writer.view.dropFirst(place))
            else {
                Issue.record("a frame is not whole")
                return found
            }
            #expect(frame.opaque == 7 && frame.cas == CAS(5))
            found.append((frame.datatype, frame.key.bytes, frame.value.bytes))
            place += frame.byteCount
        }
        return found
    }

    private func inflate(_ bytes: [UInt8]) -> [UInt8] {
        withView(bytes) { view in
            let whole = ByteWriter()
            let count = Snappy.rawCount(of: view) ?? 0
            return Snappy.decompress(view, rawCount: count, to: whole) ? whole.bytes : []
        }
    }

    @Test func lastFrameIsCompressedAlone() throws {
        let (output, scratch) = (ByteWriter(), ByteWriter())
        append(Self.text, to: output)
        let start = output.count
        append(Self.text, key: [0x6b], to: output)
        CompressedFrame.compress(lastFrameOf: output, at: start, by: scratch)
        let found = try frames(output)
        #expect(found.map(\.0) == [.json, [.json, .snappy]])
        #expect(found.map(\.1) == [[], [0x6b]])
        #expect(found[0].2 == Self.text && inflate(found[1].2) == Self.text)
        // What is compressed stays so.
        let before = output.bytes
        CompressedFrame.compress(lastFrameOf: output, at: start, by: scratch)
        #expect(output.bytes == before)
    }

    @Test func everyLargeFrameIsCompressedInPlace() throws {
        let (output, scratch) = (ByteWriter(), ByteWriter())
        append([1], to: output)
        let start = output.count
        let values = [Self.text, [2], Self.text, [UInt8](repeating: 3, count: 300 << 10)]
        for value in values { append(value, key: [value[0]], to: output) }
        CompressedFrame.compress(framesOf: output, from: start, by: scratch)
        let found = try frames(output)
        #expect(found.map { $0.0.contains(.snappy) } == [false, true, false, true, false])
        #expect(found.map(\.1) == [[]] + values.map { [$0[0]] })
        let whole = found.map { $0.0.contains(.snappy) ? inflate($0.2) : $0.2 }
        #expect(whole == [[1]] + values)
    }

    @Test func inflatedFrameHasItsOtherPartsUnchanged() {
        let packed = ByteWriter()
        withView(Self.text) { _ = Snappy.compress($0, to: packed) }
        var request: [UInt8] = [0x08, 0x01, 2, 1, 2, 3, 0, 9]
        request += withUnsafeBytes(of: UInt32(2 + 2 + 1 + packed.count).bigEndian) { Array($0) }
        request += [0, 0, 0, 7] + [0, 0, 0, 0, 0, 0, 0, 5]
        request += [0x50, 0] + [0xe1, 0xe2] + [0x6b] + packed.bytes
        withView(request) { view in
            guard case .frame(let frame) = FrameDecoder().next(in: view) else {
                Issue.record("the request is not whole")
                return
            }
            let output = ByteWriter()
            #expect(InflatedFrame.append(frame, valueCount: Self.text.count, to: output))
            guard case .frame(let whole) = FrameDecoder().next(in: output.view) else {
                Issue.record("the inflated frame is not whole")
                return
            }
            #expect(whole.byteCount == output.count && whole.datatype == .json)
            #expect(whole.framing.bytes == [0x50, 0] && whole.extras.bytes == [0xe1, 0xe2])
            #expect(whole.key.bytes == [0x6b] && whole.value.bytes == Self.text)
            #expect(whole.vBucket == VBucketID(9) && whole.cas == CAS(5) && whole.opaque == 7)
            let before = output.count
            #expect(!InflatedFrame.append(frame, valueCount: Self.text.count - 1, to: output))
            #expect(output.count == before)
        }
    }
}

/// The extras of versions of other clusters.
@Suite struct WithMetaExtrasTests {
    private static let fields: [UInt8] =
        [0, 0, 0, 1] + [0, 0, 0, 2] + [0, 0, 0, 0, 0, 0, 0, 3] + [0, 0, 0, 0, 0, 0, 0, 4]

    private func parse(_ rest: [UInt8]) -> WithMetaExtras? {
        (Self.fields + rest).withUnsafeBytes { WithMetaExtras(ByteView($0)) }
    }

    @Test func withMetaOptionsAndLengthAreOptional() throws {
        let short = try #require(parse([]))
        #expect(short.flags == 1 && short.expiry == 2 && short.revision == 3 && short.cas == CAS(4))
        #expect(short.options == [] && short.extendedCount == 0)
        let length = try #require(parse([1, 2]))
        #expect(length.options == [] && length.extendedCount == 258)
        let options = try #require(parse([0, 0, 0, 5]))
        #expect(options.options == [.skipsConflictResolution, .regeneratesCAS])
        #expect(options.extendedCount == 0)
        let both = try #require(parse([0, 0, 0, 1, 0, 9]))
        #expect(both.options == .skipsConflictResolution && both.extendedCount == 9)
        for count in [1, 3, 5, 7] { #expect(parse([UInt8](repeating: 0, count: count)) == nil) }
    }

    @Test func contradictoryWithMetaOptionsAreRejected() throws {
        func flaw(_ options: UInt8, isDeletion: Bool = false) -> String? {
            parse([0, 0, 0, options])?.flaw(isDeletion: isDeletion)
        }
        #expect(flaw(0) == nil && flaw(1) == nil && flaw(5) == nil)
        #expect(flaw(0x10, isDeletion: true) == nil)
        for options in [UInt8(2), 4, 8, 0x10, 0x20] { #expect(flaw(options) != nil) }
    }
}
