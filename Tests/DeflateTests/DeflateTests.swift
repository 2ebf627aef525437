import Bytes
import Deflate
import Testing

@Suite struct DeflateTests {
    /// Bytes that compress to about a half.
    private static func bytes(_ count: Int) -> [UInt8] {
        var random = SeededRandom(seed: 1)
        return (0..<count).map { _ in UInt8(random.next() & 15) }
    }

    private static func deflated(
        _ bytes: [UInt8],
        _ format: DeflateFormat,
        _ settings: DeflateSettings = .large
    ) -> [UInt8] {
        let (deflater, output) = (Deflater(format, settings), ByteWriter())
        bytes.withUnsafeBytes { deflater.deflate(ByteView($0), to: output) }
        deflater.finish(to: output)
        return output.bytes
    }

    /// Inflates in parts of a size, with calls that append as many bytes at most.
    private static func inflated(
        _ bytes: [UInt8],
        _ format: DeflateFormat,
        part: Int,
        bounds: InflateBounds = InflateBounds()
    ) throws(InflateFailure) -> (bytes: [UInt8], isAtEnd: Bool) {
        let (inflater, output) = (Inflater(format, bounds), ByteWriter())
        var rest = bytes[...]
        while true {
            let before = output.count
            let input = Array(rest.prefix(part))
            let consumed: Result<Int, InflateFailure> = input.withUnsafeBytes { input in
                Result { () throws(InflateFailure) in
                    try inflater.inflate(ByteView(input), to: output, atMost: part)
                }
            }
            rest = rest.dropFirst(try consumed.get())
            if rest.isEmpty, output.count - before < part { break }
        }
        return (output.bytes, inflater.isAtEnd)
    }

    @Test(arguments: [DeflateFormat.gzip, .raw], [DeflateSettings.large, .small])
    func streamIsInflatedToTheSameBytesInPartsOfEverySize(
        _ format: DeflateFormat,
        _ settings: DeflateSettings
    ) throws {
        for count in [0, 1, 100, 70_000] {
            let bytes = Self.bytes(count)
            let small = Self.deflated(bytes, format, settings)
            for part in [1, 3, 1_000, 1 << 20] {
                let result = try Self.inflated(small, format, part: part)
                #expect(result.bytes == bytes)
                #expect(result.isAtEnd)
            }
        }
    }

    @Test func flushedPartIsInflatedAtOnceAndEndsWithItsMark() throws {
        let deflater = Deflater(.raw)
        let inflater = Inflater(.raw)
        let all = ByteWriter()
        for number in 0..<20 {
            let text = "message \(number), much like the one before"
            let part = ByteWriter()
            text.withView { deflater.deflate($0, to: part) }
            deflater.flush(to: part)
            #expect(part.bytes.suffix(4) == [0, 0, 0xff, 0xff])
            all.removeAll()
            let consumed = try inflater.inflate(part.view, to: all, atMost: 1_000)
            #expect(consumed == part.count)
            #expect(all.view.text == text)
        }
        let nothing = ByteWriter()
        deflater.flush(to: nothing)
        #expect(nothing.count == 0)
    }

    @Test func resetDeflaterStartsAnIndependentStream() throws {
        let deflater = Deflater(.gzip)
        let output = ByteWriter()
        for text in ["first", "second"] {
            output.removeAll()
            deflater.reset()
            text.withView { deflater.deflate($0, to: output) }
            deflater.finish(to: output)
            let result = try Self.inflated(output.bytes, .gzip, part: 100)
            #expect(String(decoding: result.bytes, as: UTF8.self) == text)
        }
    }

    @Test func consecutiveGzipMembersAreOneStream() throws {
        let (first, second) = (Self.bytes(1_000), Self.bytes(77))
        let both = Self.deflated(first, .gzip) + Self.deflated(second, .gzip)
        for part in [1, 5_000] {
            let result = try Self.inflated(both, .gzip, part: part)
            #expect(result.bytes == first + second)
            #expect(result.isAtEnd)
        }
    }

    @Test func incompleteStreamIsNotAtItsEnd() throws {
        let small = Self.deflated(Self.bytes(1_000), .gzip)
        for count in [0, 5, small.count / 2, small.count - 1] {
            let result = try Self.inflated(Array(small.prefix(count)), .gzip, part: 5_000)
            #expect(!result.isAtEnd)
        }
    }

    @Test func damagedBytesFailEveryLaterCall() throws {
        let small = Self.deflated(Self.bytes(1_000), .gzip)
        var wrongChecksum = small
        wrongChecksum[small.count - 8] ^= 1
        for bytes in [[1, 2, 3], wrongChecksum, small + [1, 2, 3]] {
            #expect(throws: InflateFailure.damaged) {
                _ = try Self.inflated(bytes, .gzip, part: 5_000)
            }
        }
        let inflater = Inflater(.gzip)
        for _ in 0..<2 {
            let output = ByteWriter()
            #expect(throws: InflateFailure.damaged) {
                _ = try Array("no gzip".utf8).withUnsafeBytes { input in
                    try inflater.inflate(ByteView(input), to: output, atMost: 9)
                }
            }
        }
    }

    @Test func outputBeyondTheRatioFailsAsBomb() throws {
        let bomb = Self.deflated([UInt8](repeating: 7, count: 8 << 20), .gzip)
        #expect(throws: InflateFailure.bomb) { _ = try Self.inflated(bomb, .gzip, part: 65_536) }
        // Below the free bytes any ratio is allowed.
        let small = Self.deflated([UInt8](repeating: 7, count: 1 << 20), .gzip)
        #expect(try Self.inflated(small, .gzip, part: 65_536).bytes.count == 1 << 20)
        var bounds = InflateBounds()
        bounds.ratioMax = 2_000
        let wide = try Self.inflated(bomb, .gzip, part: 65_536, bounds: bounds)
        #expect(wide.bytes.count == 8 << 20)
    }

    @Test func inflateAppendsAtMostTheGivenBytes() throws {
        let small = Self.deflated([UInt8](repeating: 7, count: 1 << 20), .gzip)
        let (inflater, output) = (Inflater(.gzip), ByteWriter())
        let consumed = try small.withUnsafeBytes { input in
            try inflater.inflate(ByteView(input), to: output, atMost: 10)
        }
        #expect(output.bytes == [UInt8](repeating: 7, count: 10))
        #expect(consumed <= small.count)
    }
}
