package import Bytes
package import Vocabulary

/// A TAP_CONNECT: a client asks for the changes of a bucket's vBuckets on one node.
///
/// The older change protocol (sync-gateway-mount.md, section 2.4). It has no positions: a client
/// that reconnects starts from the present or from the first document.
package struct TapRequest: Hashable, Sendable {
    package struct Flags: OptionSet, Hashable, Sendable {
        package let rawValue: UInt32

        package init(rawValue: UInt32) { self.rawValue = rawValue }

        package static let backfill = Flags(rawValue: 0x01)
        package static let dump = Flags(rawValue: 0x02)
        package static let listVBuckets = Flags(rawValue: 0x04)
        package static let supportAcknowledgement = Flags(rawValue: 0x10)
        package static let keysOnly = Flags(rawValue: 0x20)
        package static let fixFlagByteOrder = Flags(rawValue: 0x100)
    }

    package let flags: Flags
    /// Documents that exist are not sent, only later changes.
    package let startsAtPresent: Bool
    /// The vBuckets to send; nil for all.
    package let vBuckets: Set<VBucketID>?

    /// Decodes extras and value; nil if they are malformed.
    package init?(_ frame: Frame) {
        guard frame.extras.count == 4 || frame.extras.isEmpty else { return nil }
        flags = Flags(
            rawValue: frame.extras.isEmpty ? 0 : frame.extras.bigEndian(at: 0, as: UInt32.self)
        )
        var reader = ByteReader(frame.value)
        if flags.contains(.backfill) {
            guard let date = reader.bigEndian(UInt64.self) else { return nil }
            // Documents have no time of their last change: any other date gives all of them.
            startsAtPresent = date == .max
        } else {
            startsAtPresent = false
        }
        guard flags.contains(.listVBuckets) else {
            vBuckets = nil
            return
        }
        guard let count = reader.bigEndian(UInt16.self) else { return nil }
        var listed: Set<VBucketID> = []
        for _ in 0..<count {
            guard let number = reader.bigEndian(UInt16.self) else { return nil }
            listed.insert(VBucketID(number))
        }
        vBuckets = listed
    }
}

/// An event of a TAP connection that concerns no document.
package enum TapEvent: UInt32, Hashable, Sendable {
    case beginBackfill = 1
    /// No message follows.
    case closeStream = 7
    case endBackfill = 8
}

/// Encodes the messages of a TAP connection: requests of the server.
package enum TapEncoder {
    /// Bit 0 of a message's flags: the client answers with a response of the same opaque.
    private static let acknowledge: UInt16 = 0x01
    /// The time to live of a message, in hops between servers.
    private static let hops: UInt8 = 0xff

    /// Appends a mutation, or a deletion if the change is one.
    ///
    /// - Parameters:
    ///   - change: The change.
    ///   - vBucket: Its vBucket.
    ///   - opaque: Identifies the message in an acknowledgement.
    ///   - asksForAnswer: Whether the client acknowledges this message.
    ///   - writer: Where the message goes.
    package static func append(
        _ change: DCPChange,
        _ vBucket: VBucketID,
        opaque: UInt32,
        asksForAnswer: Bool,
        to writer: ByteWriter
    ) {
        let meta = change.meta
        let extras = meta.isDeleted ? 8 : 16
        let value = meta.isDeleted ? ByteView.empty : change.value
        appendHeader(
            meta.isDeleted ? .tapDelete : .tapMutation,
            extras: extras,
            key: change.key.count,
            value: value.count,
            vBucket: vBucket,
            opaque: opaque,
            cas: meta.cas,
            to: writer
        )
        appendExtras(asksForAnswer, to: writer)
        if !meta.isDeleted {
            writer.append(bigEndian: meta.flags)
            writer.append(bigEndian: meta.expiry)
        }
        writer.append(change.key)
        writer.append(value)
    }

    /// Appends an event; its number follows the fixed extras.
    package static func append(_ event: TapEvent, opaque: UInt32, to writer: ByteWriter) {
        appendHeader(.tapOpaque, extras: 12, vBucket: VBucketID(0), opaque: opaque, to: writer)
        appendExtras(false, to: writer)
        writer.append(bigEndian: event.rawValue)
    }

    /// Appends a no-op, which keeps the connection open through firewalls.
    package static func appendNoop(opaque: UInt32, to writer: ByteWriter) {
        appendHeader(.noop, extras: 0, vBucket: VBucketID(0), opaque: opaque, to: writer)
    }

    /// No engine data, flags, hops, three reserved bytes.
    private static func appendExtras(_ asksForAnswer: Bool, to writer: ByteWriter) {
        writer.append(bigEndian: UInt16(0))
        writer.append(bigEndian: asksForAnswer ? acknowledge : 0)
        writer.append(hops)
        for _ in 0..<3 { writer.append(UInt8(0)) }
    }

    private static func appendHeader(
        _ opcode: Opcode,
        extras: Int,
        key: Int = 0,
        value: Int = 0,
        vBucket: VBucketID,
        opaque: UInt32,
        cas: CAS = .none,
        to writer: ByteWriter
    ) {
        writer.append(Magic.request.rawValue)
        writer.append(opcode.rawValue)
        writer.append(bigEndian: UInt16(key))
        writer.append(UInt8(extras))
        writer.append(UInt8(0))
        writer.append(bigEndian: vBucket.number)
        writer.append(bigEndian: UInt32(extras + key + value))
        writer.append(bigEndian: opaque)
        writer.append(bigEndian: cas.value)
    }
}
