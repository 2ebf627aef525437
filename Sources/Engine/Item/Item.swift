public import Bytes
public import Vocabulary

/// One version of a document in memory: a raw block, and the one accessor that knows its layout.
///
/// Documents are many and small, so a block has no object header, no reference count and no field
/// that can be derived: whether it is dirty follows from its seqno, where it lies on disk as well.
/// Little endian, unaligned. Fixed part of 20 bytes, then what the state bits announce:
///
/// | offset | bytes | field |
/// | ---: | ---: | --- |
/// | 0 | 8 | CAS |
/// | 8 | 6 | seqno |
/// | 14 | 2 | state bits |
/// | 16 | 1 | key length |
/// | 17 | 1 | frequency of use, logarithmic |
/// | 18 | 2 | value length, 0xffff: see the wide length |
/// | | 0, 2, 8 | revision, absent when 1 |
/// | | 0, 4 | wide length |
/// | | 0, 4 | client flags, absent when 0 |
/// | | 0, 4 | expiry, absent when 0 |
/// | | | key, then value (absent while ejected) |
///
/// - An item is dereferenced only under its vBucket's lock.
/// - The value length stays when the value is ejected.
@usableFromInline
package struct Item {
    @usableFromInline package let address: UnsafeMutableRawPointer

    @inlinable @inline(__always)
    package init(_ address: UnsafeMutableRawPointer) {
        self.address = address
    }

    /// The 16 bits that say what this version is and which optional fields it has.
    @usableFromInline
    package struct State: OptionSet {
        @usableFromInline package let rawValue: UInt16

        @inlinable @inline(__always)
        package init(rawValue: UInt16) {
            self.rawValue = rawValue
        }

        @inlinable package static var deleted: State { State(rawValue: 1 << 0) }
        @inlinable package static var valueEjected: State { State(rawValue: 1 << 1) }
        /// The position of the two bits with a prepare's level; both zero if the item is no
        /// prepare.
        @inlinable static var levelShift: UInt16 { 2 }
        @inlinable static var levelMask: UInt16 { 3 << 2 }
        @inlinable package static var locked: State { State(rawValue: 1 << 4) }
        /// The item is no version but an abort; the CAS field has the aborted prepare's seqno.
        static var aborted: State { State(rawValue: 1 << 5) }
        @inlinable package static var expired: State { State(rawValue: 1 << 6) }
        /// Bit 2 of the datatype: extended attributes precede the body.
        @inlinable static var hasAttributes: State { State(rawValue: 1 << 10) }
        @inlinable static var hasRevision16: State { State(rawValue: 1 << 11) }
        @inlinable static var hasRevision64: State { State(rawValue: 1 << 12) }
        @inlinable static var hasFlags: State { State(rawValue: 1 << 13) }
        @inlinable static var hasExpiry: State { State(rawValue: 1 << 14) }
        /// A lock has changed the version's CAS, in memory only.
        static var hasLockCAS: State { State(rawValue: 1 << 15) }
        @inlinable static var datatypeShift: UInt16 { 8 }
        @inlinable static var datatypeMask: UInt16 { 7 << 8 }
    }

    @inlinable static var fixedBytes: Int { 20 }
    @inlinable static var wideMark: UInt16 { 0xffff }
    @inlinable static var seqnoMask: UInt64 { (1 << 48) - 1 }

    // MARK: Fields

    @inlinable package var cas: CAS {
        @inline(__always) get { CAS(address.loadUnaligned(as: UInt64.self)) }
        nonmutating set { address.storeBytes(of: newValue.value, as: UInt64.self) }
    }

    @inlinable package var seqno: Seqno {
        @inline(__always) get { Seqno(order & Item.seqnoMask) }
    }

    @inlinable package var state: State {
        @inline(__always) get {
            State(rawValue: address.loadUnaligned(fromByteOffset: 14, as: UInt16.self))
        }
        nonmutating set {
            address.storeBytes(of: newValue.rawValue, toByteOffset: 14, as: UInt16.self)
        }
    }

    @inlinable package var frequency: UInt8 {
        @inline(__always) get { address.load(fromByteOffset: 17, as: UInt8.self) }
        nonmutating set { address.storeBytes(of: newValue, toByteOffset: 17, as: UInt8.self) }
    }

    @inlinable @inline(__always)
    var order: UInt64 { address.loadUnaligned(fromByteOffset: 8, as: UInt64.self) }

    @inlinable package var isDeleted: Bool { state.contains(.deleted) }

    @inlinable package var isEjected: Bool { state.contains(.valueEjected) }

    /// A prepare's durability level; nil if the item is no prepare.
    package var level: DurabilityLevel? {
        DurabilityLevel(rawValue: UInt8((state.rawValue & State.levelMask) >> State.levelShift))
    }

    /// The seqno of the aborted prepare; nil if the item is no abort.
    package var abortedPrepare: Seqno? { state.contains(.aborted) ? Seqno(cas.value) : nil }

    /// Makes a version that was just written a prepare.
    func becomePrepare(_ level: DurabilityLevel) {
        state.formUnion(State(rawValue: UInt16(level.rawValue) << State.levelShift))
    }

    @inlinable package var datatype: Datatype {
        Datatype(
            rawValue: UInt8((state.rawValue & State.datatypeMask) >> State.datatypeShift)
        )
    }

    @inlinable package var revision: UInt64 {
        if state.contains(.hasRevision16) {
            return UInt64(address.loadUnaligned(fromByteOffset: Item.fixedBytes, as: UInt16.self))
        }
        guard state.contains(.hasRevision64) else { return 1 }
        return address.loadUnaligned(fromByteOffset: Item.fixedBytes, as: UInt64.self)
    }

    @inlinable package var flags: UInt32 {
        guard state.contains(.hasFlags) else { return 0 }
        return address.loadUnaligned(fromByteOffset: flagsOffset, as: UInt32.self)
    }

    @inlinable package var expiry: UInt32 {
        guard state.contains(.hasExpiry) else { return 0 }
        let offset = flagsOffset + (state.contains(.hasFlags) ? 4 : 0)
        return address.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
    }

    /// The length of the value, whether it is in memory or ejected.
    @inlinable package var valueCount: Int {
        let short = address.loadUnaligned(fromByteOffset: 18, as: UInt16.self)
        guard short == Item.wideMark else { return Int(short) }
        let offset = Item.fixedBytes + revisionBytes
        return Int(address.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    @inlinable package var keyCount: Int { Int(address.load(fromByteOffset: 16, as: UInt8.self)) }

    @inlinable package var key: ByteView { ByteView(start: address + headerBytes, count: keyCount) }

    /// The value; empty if it is ejected.
    @inlinable package var value: ByteView {
        isEjected
            ? .empty : ByteView(start: address + headerBytes + keyCount, count: valueCount)
    }

    @inlinable package var meta: DocumentMeta {
        DocumentMeta(
            seqno: seqno,
            cas: cas,
            revision: revision,
            flags: flags,
            expiry: expiry,
            datatype: datatype,
            isDeleted: isDeleted,
            isExpired: state.contains(.expired)
        )
    }

    // MARK: Sizes

    /// The bytes that the block was allocated with.
    @inlinable package var blockBytes: Int {
        headerBytes + keyCount + (isEjected ? 0 : valueCount)
    }

    @inlinable var revisionBytes: Int {
        state.contains(.hasRevision16) ? 2 : state.contains(.hasRevision64) ? 8 : 0
    }

    @inlinable var isWide: Bool {
        address.loadUnaligned(fromByteOffset: 18, as: UInt16.self) == Item.wideMark
    }

    @inlinable var flagsOffset: Int { Item.fixedBytes + revisionBytes + (isWide ? 4 : 0) }

    @inlinable var headerBytes: Int {
        flagsOffset + (state.contains(.hasFlags) ? 4 : 0) + (state.contains(.hasExpiry) ? 4 : 0)
    }

    /// The bytes that a block for this version needs.
    package static func bytes(
        for meta: DocumentMeta,
        keyCount: Int,
        valueCount: Int,
        ejected: Bool = false
    ) -> Int {
        var bytes = fixedBytes + keyCount
        if meta.revision > 0xffff { bytes += 8 } else if meta.revision != 1 { bytes += 2 }
        if valueCount >= Int(wideMark) { bytes += 4 }
        if meta.flags != 0 { bytes += 4 }
        if meta.expiry != 0 { bytes += 4 }
        return ejected ? bytes : bytes + valueCount
    }

    // MARK: Writing

    /// Writes a version to a block with at least `bytes(for:)` bytes; overwrites its old content.
    ///
    /// - Parameters:
    ///   - meta: Everything but key and value; `frequency` starts anew.
    ///   - key: Must not lie within this block.
    ///   - value: Must not lie within this block; ignored where `ejectedCount` is given.
    ///   - ejectedCount: The length of a value that stays on disk.
    package func write(
        _ meta: DocumentMeta,
        key: ByteView,
        value: ByteView,
        ejectedCount: Int? = nil
    ) {
        precondition(meta.seqno.value <= Item.seqnoMask, "a seqno has 48 bits")
        let valueCount = ejectedCount ?? value.count
        var state = State(rawValue: UInt16(meta.datatype.rawValue & 7) << State.datatypeShift)
        if meta.isDeleted { state.insert(.deleted) }
        if meta.isExpired { state.insert(.expired) }
        if ejectedCount != nil { state.insert(.valueEjected) }
        var offset = Item.fixedBytes
        if meta.revision > 0xffff {
            state.insert(.hasRevision64)
            put(meta.revision, at: &offset)
        } else if meta.revision != 1 {
            state.insert(.hasRevision16)
            put(UInt16(meta.revision), at: &offset)
        }
        if valueCount >= Int(Item.wideMark) { put(UInt32(valueCount), at: &offset) }
        if meta.flags != 0 {
            state.insert(.hasFlags)
            put(meta.flags, at: &offset)
        }
        if meta.expiry != 0 {
            state.insert(.hasExpiry)
            put(meta.expiry, at: &offset)
        }
        address.storeBytes(of: meta.cas.value, as: UInt64.self)
        let order = meta.seqno.value | UInt64(state.rawValue) << 48
        address.storeBytes(of: order, toByteOffset: 8, as: UInt64.self)
        address.storeBytes(of: UInt8(key.count), toByteOffset: 16, as: UInt8.self)
        address.storeBytes(of: Item.initialFrequency, toByteOffset: 17, as: UInt8.self)
        let short = valueCount >= Int(Item.wideMark) ? Item.wideMark : UInt16(valueCount)
        address.storeBytes(of: short, toByteOffset: 18, as: UInt16.self)
        Memory.copy(to: address + offset, from: key.start, count: key.count)
        guard ejectedCount == nil else { return }
        Memory.copy(to: address + offset + key.count, from: value.start, count: value.count)
    }

    /// New documents start a little above the coldest, so that they are not ejected at once.
    package static let initialFrequency: UInt8 = 4

    @inline(__always)
    private func put<Integer: FixedWidthInteger>(_ value: Integer, at offset: inout Int) {
        address.storeBytes(of: value.littleEndian, toByteOffset: offset, as: Integer.self)
        offset += MemoryLayout<Integer>.size
    }
}

/// Extended attributes of a version: they lie in front of the body (`XattrBlob`).
extension Item {
    /// Whether the value has extended attributes, in memory or ejected.
    @inlinable @inline(__always)
    package var hasAttributes: Bool { state.contains(.hasAttributes) }

    /// The attributes; nil if there are none, or if the value is ejected.
    package var attributes: XattrBlob? {
        hasAttributes && !isEjected ? XattrBlob(stored: value) : nil
    }

    /// The value without attributes; empty if it is ejected.
    @inlinable @inline(__always)
    package var body: ByteView { hasAttributes ? bodyBehindAttributes : value }

    @inline(never) @usableFromInline
    var bodyBehindAttributes: ByteView { attributes?.body ?? .empty }
}
