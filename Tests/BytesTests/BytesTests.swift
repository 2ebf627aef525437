import Bytes
import Testing

@Suite struct BytesTests {
    @Test func checksumAgreesWithTheKnownValue() {
        // Catalogues of CRCs give the checksum of "123456789".
        let digits = Array("123456789".utf8)
        digits.withUnsafeBytes { #expect(CRC32.checksum(ByteView($0)) == 0xcbf4_3926) }
        digits.withUnsafeBytes {
            let first = CRC32.checksum(ByteView($0).slice(0, 4))
            #expect(CRC32.checksum(ByteView($0).dropFirst(4), seed: first) == 0xcbf4_3926)
        }
    }

    @Test func withLockIfFreeReturnsNilWhileTheLockIsHeld() {
        let number = Guarded(1)
        let next = { number.withLockIfFree { $0 + 1 } }
        let whileTaken = number.withLock { _ in next() }
        #expect(whileTaken == nil)
        #expect(next() == 2)
    }

    @Test func readBeyondTheEndReturnsNil() {
        let bytes: [UInt8] = [0, 1, 2]
        bytes.withUnsafeBytes {
            var reader = ByteReader(ByteView($0))
            #expect(reader.bigEndian(UInt16.self) == 1)
            #expect(reader.bigEndian(UInt16.self) == nil)
            #expect(reader.bytes(2) == nil)
            #expect(reader.bigEndian(UInt8.self) == 2)
            #expect(reader.isAtEnd)
        }
    }

    @Test func leb128RoundTripsAndRefusesMoreThan64Bits() {
        for value in [0, 1, 127, 128, 300, UInt64.max] {
            let writer = ByteWriter()
            LEB128.append(value, to: writer)
            let decoded = LEB128.decode(writer.view)
            #expect(decoded?.value == value)
            #expect(decoded?.length == writer.count)
        }
        let endless = [UInt8](repeating: 0x80, count: 12)
        endless.withUnsafeBytes { #expect(LEB128.decode(ByteView($0)) == nil) }
    }

    @Test func compressSmallCompressesBetterThanCompress() {
        var random = SystemRandomNumberGenerator()
        let words = (0..<200).map { _ in String(UInt32.random(in: 0..<1 << 30, using: &random)) }
        let text = Array(
            (0..<4_000).map { _ in words.randomElement(using: &random) ?? "" }.joined().utf8
        )
        let (fast, small, whole) = (ByteWriter(), ByteWriter(), ByteWriter())
        text.withUnsafeBytes { bytes in
            _ = LZ4.compress(ByteView(bytes), to: fast)
            _ = LZ4.compressSmall(ByteView(bytes), to: small)
        }
        #expect(small.count < fast.count)
        #expect(LZ4.decompress(small.view, rawCount: text.count, to: whole))
        #expect(whole.view.bytes == text)
    }

    @Test func lz4RoundTripsAndRefusesDamagedInput() {
        let text = Array(String(repeating: "divan keeps sheets. ", count: 200).utf8)
        let packed = ByteWriter()
        text.withUnsafeBytes { _ = LZ4.compress(ByteView($0), to: packed) }
        #expect(packed.count < text.count / 4)
        let whole = ByteWriter()
        #expect(LZ4.decompress(packed.view, rawCount: text.count, to: whole))
        #expect(whole.bytes == text)
        let part = ByteWriter()
        #expect(LZ4.decompress(packed.view, prefixCount: 20, rawCount: text.count, to: part))
        #expect(part.bytes == Array(text.prefix(20)))
        let cut = packed.view.slice(0, packed.count / 2)
        #expect(!LZ4.decompress(cut, rawCount: text.count, to: whole))
    }

    @Test func snappyRoundTripsAndRefusesDamagedInput() {
        let text = Array(String(repeating: "divan keeps sheets. ", count: 200).utf8)
        let packed = ByteWriter()
        text.withUnsafeBytes { _ = Snappy.compress(ByteView($0), to: packed) }
        #expect(packed.count < text.count / 4)
        #expect(Snappy.rawCount(of: packed.view) == text.count)
        #expect(Snappy.rawCount(of: .empty) == nil)
        let whole = ByteWriter()
        #expect(Snappy.decompress(packed.view, rawCount: text.count, to: whole))
        #expect(whole.bytes == text)
        let cut = packed.view.slice(0, packed.count / 2)
        #expect(!Snappy.decompress(cut, rawCount: text.count, to: whole))
        #expect(!Snappy.decompress(packed.view, rawCount: text.count - 1, to: whole))
        #expect(!Snappy.decompress(packed.view, rawCount: text.count + 1, to: whole))
        #expect(whole.count == text.count)
    }

    @Test func keyHashDependsOnEveryByteAndOnTheSeed() {
        var seen: Set<UInt64> = []
        let hash = KeyHash(seed: 7)
        for length in 0..<40 {
            for place in 0..<max(length, 1) {
                var key = [UInt8](repeating: 0, count: length)
                if length > 0 { key[place] = 1 }
                key.withUnsafeBytes { _ = seen.insert(hash(ByteView($0))) }
            }
        }
        #expect(seen.count == 1 + (1..<40).reduce(0, +))
        [UInt8]("key".utf8).withUnsafeBytes {
            #expect(KeyHash(seed: 1)(ByteView($0)) != KeyHash(seed: 2)(ByteView($0)))
        }
    }

    @Test func writerGrowsAndReplacesIntegers() {
        let writer = ByteWriter(capacity: 16)
        writer.append(bigEndian: UInt32(0))
        for index in 0..<100 { writer.append(UInt8(index)) }
        writer.replace(at: 0, bigEndian: UInt32(100))
        #expect(writer.count == 104)
        #expect(writer.view.bigEndian(at: 0, as: UInt32.self) == 100)
        writer.removeFirst(4)
        #expect(writer.view[99] == 99)
    }
}

@Suite struct KeyHashTests {
    /// A key that makes one factor of a product zero would cancel the other factor.
    @Test func keyWithAConstantOfTheHashDoesNotCancelOtherBytes() {
        for constant: UInt64 in [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db] {
            var seen: Set<UInt64> = []
            for number in 0..<1_000 {
                let writer = ByteWriter()
                writer.append(littleEndian: constant)
                writer.append(littleEndian: UInt64(number))
                writer.append("tail")
                seen.insert(KeyHash(seed: 3)(writer.view))
            }
            #expect(seen.count == 1_000)
        }
    }

    /// Tables use the top bits for the place of a key and the low bits to distinguish keys: both
    /// have to be evenly distributed.
    @Test func hashBitsAreEvenlyDistributedForKeysThatDifferInADigit() {
        var ones = [Int](repeating: 0, count: 64)
        var seen: Set<UInt64> = []
        for number in 0..<100_000 {
            let key = Array("user:\(number)".utf8)
            let hash = key.withUnsafeBytes { KeyHash(seed: 11)(ByteView($0)) }
            seen.insert(hash)
            for bit in 0..<64 where hash >> UInt64(bit) & 1 == 1 { ones[bit] += 1 }
        }
        #expect(seen.count == 100_000)
        for count in ones { #expect(abs(count - 50_000) < 1_000) }
    }
}
