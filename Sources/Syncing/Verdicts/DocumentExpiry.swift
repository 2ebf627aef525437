internal import Bytes
package import JSON

/// Reads what a sync function or the member `_exp` of a document gives as its expiry.
///
/// A number, a number as text, or a date of RFC 3339; Sync Gateway accepts the same
/// (`base/util.go`, `ReflectExpiry`).
package enum DocumentExpiry {
    /// Seconds as the memcached protocol has them; nil if `value` is null or no expiry.
    package static func seconds(of value: JSONValue) -> UInt32? {
        switch value {
        case .string(let text):
            if let number = Int32(text) { return UInt32(exactly: number) }
            return text.withView { date($0) }
        default:
            return value.double.flatMap { UInt32(exactly: $0.rounded(.towardZero)) }
        }
    }

    /// The Unix time of `YYYY-MM-DDThh:mm:ss[.fraction](Z|+hh:mm|-hh:mm)`; nil for anything else, and
    /// outside the years 1970 to 2105.
    private static func date(_ text: ByteView) -> UInt32? {
        guard text.count >= 20 else { return nil }
        for (offset, byte) in [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":")] {
            guard byte.utf8.first == text[offset] else { return nil }
        }
        let offsets = [(0, 4), (5, 2), (8, 2), (11, 2), (14, 2), (17, 2)]
        let parts = offsets.compactMap { number(text.slice($0.0, $0.1)) }
        guard parts.count == 6, (1...12).contains(parts[1]), (1...31).contains(parts[2]),
            parts[3] < 24, parts[4] < 60, parts[5] < 60
        else { return nil }
        var end = 19
        if text[end] == UInt8(ascii: ".") {
            end += 1
            while end < text.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(text[end]) {
                end += 1
            }
        }
        guard let zone = zoneSeconds(text.dropFirst(end)) else { return nil }
        let time = parts[3] * 3_600 + parts[4] * 60 + parts[5]
        return UInt32(exactly: days(parts[0], parts[1], parts[2]) * 86_400 + time - zone)
    }

    private static func zoneSeconds(_ text: ByteView) -> Int? {
        if text.count == 1 { return text[0] == UInt8(ascii: "Z") ? 0 : nil }
        guard text.count == 6, text[3] == UInt8(ascii: ":"), let hours = number(text.slice(1, 2)),
            let minutes = number(text.slice(4, 2)), hours < 24, minutes < 60
        else { return nil }
        let seconds = hours * 3_600 + minutes * 60
        switch text[0] {
        case UInt8(ascii: "+"): return seconds
        case UInt8(ascii: "-"): return -seconds
        default: return nil
        }
    }

    private static func number(_ digits: ByteView) -> Int? {
        var value = 0
        for byte in digits.buffer {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return value
    }

    /// Days from 1970-01-01 in the Gregorian calendar (Hinnant, *chrono-compatible algorithms*, 2013).
    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let year = month <= 2 ? year - 1 : year
        let ofYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return 365 * year + year / 4 - year / 100 + year / 400 + ofYear - 719_468
    }
}
