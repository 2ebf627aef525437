package import Bytes

/// Times of the proleptic Gregorian calendar, in UTC, as texts.
package enum CalendarTime {
    private static let dayNames = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let monthNames = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
    private static let daySeconds = 86_400

    /// The date of HTTP (RFC 9110, section 5.6.7), for example `Sun, 22 Nov 2026 19:04:32 GMT`.
    ///
    /// Seconds before 1970 or after 9999 are moved to the nearest of these years.
    package static func httpText(unixSeconds: Int) -> String {
        let seconds = min(max(unixSeconds, 0), 253_402_300_799)
        let days = seconds / daySeconds
        let date = civil(days: days)
        let month = monthNames[date.month - 1]
        let day = "\(dayNames[days % 7]), \(padded(date.day, to: 2)) \(month) \(date.year)"
        return "\(day) \(clockText(seconds)) GMT"
    }

    /// The time of RFC 3339 in UTC, without zeros at the fraction's end: `2026-11-21T19:04:28.68Z`.
    package static func text(unixNanoseconds: UInt64) -> String {
        // Below 2^35, so both fit an `Int`.
        let (whole, rest) = unixNanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        let (seconds, nanoseconds) = (Int(whole), Int(rest))
        let date = civil(days: seconds / daySeconds)
        var fraction = padded(nanoseconds, to: 9)
        while fraction.last == "0" { fraction.removeLast() }
        let day = [padded(date.year, to: 4), padded(date.month, to: 2), padded(date.day, to: 2)]
        return day.joined(separator: "-") + "T" + clockText(seconds)
            + (fraction.isEmpty ? "Z" : ".\(fraction)Z")
    }

    private static func clockText(_ seconds: Int) -> String {
        [seconds % daySeconds / 3_600, seconds % 3_600 / 60, seconds % 60]
            .map { padded($0, to: 2) }.joined(separator: ":")
    }

    private static func padded(_ number: Int, to width: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(width - text.count, 0)) + text
    }

    /// The second that an ISO 8601 time names, `2026-11-22T19:04:32Z`, with fraction and offset (RFC 3339).
    ///
    /// Nil for any other text, and for years before 1970. A fraction is dropped.
    package static func unixSeconds(iso text: ByteView) -> Int? {
        var fields = FixedFields(text: text)
        guard let year = fields.digits(4), fields.skip("-"), let month = fields.digits(2),
            fields.skip("-"), let day = fields.digits(2), fields.skip("Tt "),
            let hour = fields.digits(2), fields.skip(":"), let minute = fields.digits(2),
            fields.skip(":"), let second = fields.digits(2), fields.skipFraction(),
            let offset = fields.zone(), fields.isAtEnd
        else { return nil }
        guard year >= 1_970, 1...12 ~= month, 1...31 ~= day, hour < 24, minute < 60, second < 61
        else { return nil }
        let days = days(year: year, month: month, day: day)
        guard civil(days: days).day == day else { return nil }
        return days * daySeconds + hour * 3_600 + minute * 60 + second - offset
    }

    /// Days since 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms").
    private static func days(year: Int, month: Int, day: Int) -> Int {
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted % 400
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
            - 719_468
    }

    private static func civil(days: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = days + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }

    /// Reads fields of a fixed width.
    private struct FixedFields {
        let text: ByteView
        private var offset = 0

        init(text: ByteView) { self.text = text }

        var isAtEnd: Bool { offset == text.count }

        mutating func digits(_ count: Int) -> Int? {
            guard text.count - offset >= count else { return nil }
            var number = 0
            for byte in text.slice(offset, count).buffer {
                guard let digit = ASCII.digit(byte) else { return nil }
                number = number * 10 + digit
            }
            offset += count
            return number
        }

        /// Skips one byte that is in `bytes`.
        mutating func skip(_ bytes: String) -> Bool {
            guard offset < text.count, bytes.utf8.contains(text[offset]) else { return false }
            offset += 1
            return true
        }

        mutating func skipFraction() -> Bool {
            guard skip(".") else { return true }
            let first = offset
            while offset < text.count, ASCII.digit(text[offset]) != nil { offset += 1 }
            return offset > first
        }

        /// The seconds that the zone is east of UTC.
        mutating func zone() -> Int? {
            if skip("Zz") { return 0 }
            guard offset < text.count else { return nil }
            let isWest = text[offset] == UInt8(ascii: "-")
            guard skip("+-"), let hours = digits(2), skip(":"), let minutes = digits(2),
                hours < 24, minutes < 60
            else { return nil }
            return (isWest ? -1 : 1) * (hours * 3_600 + minutes * 60)
        }
    }
}
