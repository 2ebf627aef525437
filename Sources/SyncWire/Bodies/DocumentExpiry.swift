internal import Bytes
internal import JSON

/// When a document expires: the member `_exp`.
package enum DocumentExpiry: Equatable, Sendable {
    /// So long after the write.
    case seconds(Int)
    /// At this second since 1970.
    case unixSeconds(Int)

    /// Numbers up to here are durations, larger ones times: memcached's rule, which the bucket has too.
    package static let durationSecondsMax = 30 * 86_400

    /// Nil for 0, and for times that 32 bits do not hold.
    package init?(number: Int) {
        guard 1...Int(UInt32.max) ~= number else { return nil }
        self = number <= Self.durationSecondsMax ? .seconds(number) : .unixSeconds(number)
    }

    /// Parses the value of `_exp`: a number, a text with digits, or an ISO 8601 time.
    ///
    /// Nil for 0 and null: the document does not expire.
    ///
    /// - Throws: `.badExpiry` for anything else, and for times that 32 bits do not hold.
    package static func parse(_ json: [UInt8]) throws(RequestRefusal) -> DocumentExpiry? {
        let value = json.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        switch value {
        case .null?: return nil
        case .integer(let number)?: return try expiry(ofNumber: number)
        case .string(let text)?:
            let number = text.withView { text in
                ASCII.number(text, as: Int.self)
            }
            if let number { return try expiry(ofNumber: number) }
            guard let time = text.withView({ CalendarTime.unixSeconds(iso: $0) }),
                0...Int(UInt32.max) ~= time
            else { throw .badExpiry }
            return .unixSeconds(time)
        case let number?:
            guard let whole = number.double.flatMap({ Int(exactly: $0.rounded(.towardZero)) })
            else { throw .badExpiry }
            return try expiry(ofNumber: whole)
        case nil: throw .badExpiry
        }
    }

    private static func expiry(ofNumber number: Int) throws(RequestRefusal) -> DocumentExpiry? {
        guard let expiry = DocumentExpiry(number: number) else {
            if number == 0 { return nil }
            throw .badExpiry
        }
        return expiry
    }
}
