package import Bytes
internal import JSON

/// A position in the feed of a database as clients keep it: `since`, `seq` and `last_seq`.
///
/// Forms (contract, section 7): `N`; `T:N`, the sequence N, sent late because access was granted at T; `L::N` and
/// `L:T:N`, everything up to L was sent; `N~SET:M`, everything up to M, and up to N but for the vBuckets of SET:
/// read as M, which repeats rows and loses none. Clients do not interpret tokens, they echo them.
///
/// - Tokens are ordered as the feed sends them: back-filled rows come directly before the row of the grant.
/// - A text is parsed to the token that prints it, except `N~SET:M`, a low sequence that is not below N, a zero
///   component and leading zeros.
package struct SequenceToken: Hashable, Sendable {
    /// The sequence of the row; 0 for the beginning.
    package let sequence: UInt64
    /// The sequence of the grant for which the row was sent; 0 if it was sent for itself.
    package let trigger: UInt64
    /// Everything up to here was sent; 0 if that is all up to the row.
    package let low: UInt64

    package static let zero = SequenceToken(0)

    /// Longer texts are no tokens; a set of 1 024 vBuckets has 256 hexadecimal digits.
    package static let bytesMax = 1_024

    package init(_ sequence: UInt64, trigger: UInt64 = 0, low: UInt64 = 0) {
        self.sequence = sequence
        self.trigger = trigger
        // A row that was skipped and comes late is below the low sequence, which then has no meaning.
        self.low = low < sequence ? low : 0
    }

    /// The sequence up to which the client has everything.
    package var safeSequence: UInt64 { low > 0 ? low : sequence }

    /// Where a feed of whole positions continues after this token, without a low sequence: it may repeat rows
    /// above the low sequence, and loses none.
    package var resumption: SequenceToken {
        low == 0
            ? self : min(SequenceToken(low), SequenceToken(sequence, trigger: trigger))
    }

    /// Parses a token, also one in JSON quotes; the empty text is zero.
    ///
    /// - Throws: `.badSequence` for any other text.
    package init(_ text: ByteView) throws(RequestRefusal) {
        var text = text
        if text.count >= 2, text[0] == UInt8(ascii: "\""), text[text.count - 1] == text[0] {
            text = text.slice(1, text.count - 2)
        }
        guard text.count <= SequenceToken.bytesMax, let token = SequenceToken.parse(text) else {
            throw .badSequence
        }
        self = token
    }

    /// Parses a token, also one in JSON quotes; the empty text is zero.
    ///
    /// - Throws: `.badSequence` for any other text.
    package init(_ text: String) throws(RequestRefusal) {
        let bytes = Array(text.utf8)
        self = try SequenceToken.parse(bytes)
    }

    /// Parses a member `since` of a JSON body: a number, a string or null.
    ///
    /// - Throws: `.badSequence`.
    init(_ value: JSONValue) throws(RequestRefusal) {
        switch value {
        case .null: self = .zero
        case .integer(let number) where number >= 0: self.init(UInt64(number))
        case .unsigned(let number): self.init(number)
        case .string(let text): self = try SequenceToken(text)
        default: throw .badSequence
        }
    }

    /// - Throws: `.badSequence`.
    private static func parse(_ bytes: [UInt8]) throws(RequestRefusal) -> SequenceToken {
        let result = bytes.withUnsafeBytes { buffer in
            Result<SequenceToken, RequestRefusal> { () throws(RequestRefusal) in
                try SequenceToken(ByteView(buffer))
            }
        }
        return try result.get()
    }

    private static func parse(_ text: ByteView) -> SequenceToken? {
        if text.isEmpty { return .zero }
        if let (head, rest) = ASCII.cut(text, at: "~") { return parsePartial(head, rest) }
        let parts = ASCII.split(text, at: ":")
        let numbers = parts.map { ASCII.number($0, as: UInt64.self) }
        switch parts.count {
        case 1: return numbers[0].map { SequenceToken($0) }
        case 2:
            guard let trigger = numbers[0], let sequence = numbers[1] else { return nil }
            return SequenceToken(sequence, trigger: trigger)
        case 3:
            guard let low = numbers[0], let sequence = numbers[2],
                let trigger = parts[1].isEmpty ? 0 : numbers[1]
            else { return nil }
            return SequenceToken(sequence, trigger: trigger, low: low)
        default: return nil
        }
    }

    /// `N~SET:M`: SET is not empty and has letters, digits and `.,_-` only.
    private static func parsePartial(_ head: ByteView, _ rest: ByteView) -> SequenceToken? {
        guard let newest = ASCII.number(head, as: UInt64.self),
            let (set, tail) = ASCII.cut(rest, at: ":"), !set.isEmpty,
            set.buffer.allSatisfy(isSetByte),
            let oldest = ASCII.number(tail, as: UInt64.self), oldest <= newest
        else { return nil }
        return SequenceToken(oldest)
    }

    private static func isSetByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "."), UInt8(ascii: ","),
            UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }
}

extension SequenceToken: Comparable {
    /// By the grant or, without one, the safe sequence; rows of a grant come before the grant's own row.
    package static func < (one: SequenceToken, other: SequenceToken) -> Bool {
        let (first, second) = (one.orderKey, other.orderKey)
        return first < second
    }

    private var orderKey: (UInt64, UInt64, UInt64, UInt64) {
        trigger > 0
            ? (trigger, 0, safeSequence, sequence) : (safeSequence, 1, sequence, sequence)
    }
}

extension SequenceToken: CustomStringConvertible {
    package var description: String {
        switch (low, trigger) {
        case (0, 0): "\(sequence)"
        case (0, _): "\(trigger):\(sequence)"
        case (_, 0): "\(low)::\(sequence)"
        default: "\(low):\(trigger):\(sequence)"
        }
    }

    /// Appends the token as the `seq` of a row: a number if it is plain, else a string.
    package func append(to output: ByteWriter) {
        let isPlain = low == 0 && trigger == 0
        if !isPlain { output.append(UInt8(ascii: "\"")) }
        output.append(text: description)
        if !isPlain { output.append(UInt8(ascii: "\"")) }
    }
}
