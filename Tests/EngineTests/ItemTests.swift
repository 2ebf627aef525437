import Bytes
import Engine
import Testing
import Vocabulary

@Suite struct ItemTests {
    private static let seqnos: [UInt64] = [1, 1 << 48 - 1]
    private static let revisions: [UInt64] = [0, 1, 2, 0xffff, 0x1_0000, .max]
    private static let valueCounts = [0, 1, 100, 65_534, 65_535, 65_536]

    @Test func everyCombinationOfOptionalFieldsRoundTrips() {
        let value = (0..<65_536).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
        for seqno in Self.seqnos {
            for revision in Self.revisions {
                for bits in 0..<(8 * 16) {
                    let meta = DocumentMeta(
                        seqno: Seqno(seqno),
                        cas: CAS(seqno &* 0x0102_0304_0506_0708),
                        revision: revision,
                        flags: bits & 1 == 0 ? 0 : 0xdead_beef,
                        expiry: bits & 2 == 0 ? 0 : 0xffff_fffe,
                        datatype: Datatype(rawValue: UInt8(bits >> 4)),
                        isDeleted: bits & 4 != 0,
                        isExpired: bits & 8 != 0
                    )
                    for valueCount in Self.valueCounts {
                        let key = Array(repeating: UInt8(bits), count: 1 + bits * 249 / 127)
                        check(meta, key: key, value: Array(value.prefix(valueCount)))
                    }
                }
            }
        }
    }

    /// Writes with and without its value, into blocks of exactly the size that was asked for.
    private func check(_ meta: DocumentMeta, key: [UInt8], value: [UInt8]) {
        for isEjected in [false, true] {
            let bytes = Item.bytes(
                for: meta,
                keyCount: key.count,
                valueCount: value.count,
                ejected: isEjected
            )
            let block = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes + 8, alignment: 8)
            defer { block.deallocate() }
            block.initializeMemory(as: UInt8.self, repeating: 0xa5)
            guard let start = block.baseAddress else { return }
            let item = Item(start)
            viewing(key) { key in
                viewing(value) { value in
                    item.write(
                        meta,
                        key: key,
                        value: isEjected ? .empty : value,
                        ejectedCount: isEjected ? value.count : nil
                    )
                    #expect(item.key.equals(key))
                    #expect(item.value.equals(isEjected ? .empty : value))
                }
            }
            #expect(item.meta == meta)
            #expect(item.valueCount == value.count)
            #expect(item.isEjected == isEjected)
            #expect(item.isDeleted == meta.isDeleted)
            #expect(item.blockBytes == bytes)
            #expect(item.frequency == Item.initialFrequency)
            #expect(block[bytes...].allSatisfy { $0 == 0xa5 }, "nothing is written behind the end")
        }
    }

    @Test func typicalDocumentUses136Bytes() {
        let meta = DocumentMeta()
        let bytes = Item.bytes(for: meta, keyCount: 15, valueCount: 100)
        #expect(bytes == 135)
        #expect(SizeClass.footprint(of: bytes) == 136)
        var rich = meta
        rich.flags = 1
        #expect(Item.bytes(for: rich, keyCount: 15, valueCount: 100) == 139)
        rich.expiry = 1
        #expect(Item.bytes(for: rich, keyCount: 15, valueCount: 100) == 143)
        rich.revision = 2
        #expect(Item.bytes(for: rich, keyCount: 15, valueCount: 100) == 145)
        #expect(Item.bytes(for: meta, keyCount: 15, valueCount: 100, ejected: true) == 35)
    }

    @Test func largestDocumentRoundTrips() {
        let key = [UInt8](repeating: 0x6b, count: 250)
        let value = (0..<Limits.valueBytesMax).map { UInt8(truncatingIfNeeded: $0 >> 3) }
        check(DocumentMeta(seqno: Seqno(9), revision: 7, flags: 2), key: key, value: value)
    }

    @Test func stateCASAndFrequencyChangeInPlace() {
        let stage = Stage()
        let item = stage.item(key(1), value: [1, 2, 3])
        defer { stage.free(item) }
        let before = item.meta
        item.state.insert(.locked)
        item.frequency = 200
        item.cas = CAS(99)
        #expect(item.frequency == 200)
        #expect(item.state.contains(.locked))
        item.state.remove(.locked)
        var expected = before
        expected.cas = CAS(99)
        #expect(item.meta == expected)
        viewing([1, 2, 3]) { #expect(item.value.equals($0)) }
    }
}
