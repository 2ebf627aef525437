package import Bytes
package import Vocabulary

/// The durability that a write requires; without a timeout the server's default applies.
package struct DurabilityRequirement: Equatable, Sendable {
    package let level: DurabilityLevel
    package let timeoutMilliseconds: UInt16?

    package init(level: DurabilityLevel, timeoutMilliseconds: UInt16? = nil) {
        self.level = level
        self.timeoutMilliseconds = timeoutMilliseconds
    }
}

/// The options of a flexible request: a sequence of (id, length, data).
///
/// Id and length share a byte; 15 in either half means 15 plus the byte that follows. An unknown id
/// must be rejected, never skipped: otherwise a client that requests durability in an unknown form
/// would get a success without it.
package struct FramingExtras {
    /// Later commands of the connection wait until this one is completed.
    package var isBarrier = false
    package var durability: DurabilityRequirement?
    /// Which of several DCP streams of one vBucket.
    package var streamID: UInt16?
    /// The user on whose behalf the command is executed; borrowed from the frame.
    package var impersonated: ByteView?
    /// Keep the document's expiry.
    package var preservesExpiry = false

    /// The longest possible item: 15 plus the largest value of the byte that follows.
    package static let itemBytesMax = 15 + Int(UInt8.max)

    package init() {}

    package enum Outcome {
        case parsed(FramingExtras)
        /// Answer 0x80.
        case unknown(id: Int)
        /// A durability level that does not exist: answer 0xa0.
        case levelInvalid(UInt8)
        /// Truncated, a wrong length, a forbidden timeout or a contradiction: answer 0x04.
        case malformed
    }

    /// Decodes framing extras; an empty view has no options.
    package static func parse(_ view: ByteView) -> Outcome {
        var extras = FramingExtras()
        var reader = ByteReader(view)
        var seen: UInt32 = 0
        while !reader.isAtEnd {
            guard let (id, data) = nextItem(&reader) else { return .malformed }
            guard id <= 5, id != 3 else { return .unknown(id: id) }
            let before = extras
            if let refusal = extras.apply(id, data) { return refusal }
            // Couchbase's C++ client appends all items again with every retry of a request.
            if seen >> UInt32(id) & 1 == 1, !extras.agrees(with: before) { return .malformed }
            seen |= 1 << UInt32(id)
        }
        return .parsed(extras)
    }

    /// Whether repeated items have the values of `before`; timeouts may differ, the last one
    /// counts.
    private func agrees(with before: FramingExtras) -> Bool {
        durability?.level == before.durability?.level && streamID == before.streamID
            && impersonated?.bytes == before.impersonated?.bytes
    }

    /// Reads one item; nil if it is truncated.
    private static func nextItem(_ reader: inout ByteReader) -> (id: Int, data: ByteView)? {
        guard let first = reader.bigEndian(UInt8.self) else { return nil }
        var id = Int(first >> 4)
        var count = Int(first & 0x0f)
        if id == 15 {
            guard let more = reader.bigEndian(UInt8.self) else { return nil }
            id += Int(more)
        }
        if count == 15 {
            guard let more = reader.bigEndian(UInt8.self) else { return nil }
            count += Int(more)
        }
        guard let data = reader.bytes(count) else { return nil }
        return (id, data)
    }

    /// Applies one item; returns the error, or nil if the item is valid.
    private mutating func apply(_ id: Int, _ data: ByteView) -> Outcome? {
        switch (id, data.count) {
        case (0, 0): isBarrier = true
        case (1, 1), (1, 3):
            guard let level = DurabilityLevel(rawValue: data[0]) else {
                return .levelInvalid(data[0])
            }
            let timeout = data.count == 3 ? data.bigEndian(at: 1, as: UInt16.self) : nil
            guard timeout != 0, timeout != 0xffff else { return .malformed }
            durability = DurabilityRequirement(level: level, timeoutMilliseconds: timeout)
        case (2, 2): streamID = data.bigEndian(at: 0, as: UInt16.self)
        case (4, 1...): impersonated = data
        case (5, 0): preservesExpiry = true
        default: return .malformed
        }
        return nil
    }

    /// Appends these extras to a request.
    package func append(to writer: ByteWriter) {
        if isBarrier { writer.append(0x00) }
        if let durability {
            writer.append(durability.timeoutMilliseconds == nil ? 0x11 : 0x13)
            writer.append(durability.level.rawValue)
            if let timeout = durability.timeoutMilliseconds { writer.append(bigEndian: timeout) }
        }
        if let streamID {
            writer.append(0x22)
            writer.append(bigEndian: streamID)
        }
        if let impersonated {
            precondition(
                impersonated.count <= Self.itemBytesMax,
                "a user's name fits framing extras"
            )
            let isLong = impersonated.count >= 15
            writer.append(0x40 | UInt8(isLong ? 15 : impersonated.count))
            if isLong { writer.append(UInt8(impersonated.count - 15)) }
            writer.append(impersonated)
        }
        if preservesExpiry { writer.append(0x50) }
    }
}
