/// Times as text (RFC 3339), for members that Sync Gateway prints.
enum TimestampText {
    private static let nanosecondsOfSecond: UInt64 = 1_000_000_000
    private static let secondsOfDay: UInt64 = 86_400

    /// The time of nanoseconds since 1970 in UTC, for example `2026-11-21T19:04:28.680314707Z`,
    /// without zeros at the fraction's end.
    static func utc(nanoseconds: UInt64) -> String {
        let seconds = nanoseconds / nanosecondsOfSecond
        let second = seconds % secondsOfDay
        let time = [second / 3_600, second / 60 % 60, second % 60].map { padded($0, to: 2) }
        var fraction = padded(nanoseconds % nanosecondsOfSecond, to: 9)
        while fraction.last == "0" { fraction.removeLast() }
        return date(day: seconds / secondsOfDay) + "T" + time.joined(separator: ":")
            + (fraction.isEmpty ? "Z" : ".\(fraction)Z")
    }

    /// The date of a day since 1970-01-01, by eras of 400 years that begin in March (Hinnant,
    /// *chrono-Compatible Low-Level Date Algorithms*).
    private static func date(day: UInt64) -> String {
        // From 0000-03-01 to 1970-01-01.
        let days = day + 719_468
        let (era, dayOfEra) = days.quotientAndRemainder(dividingBy: 146_097)
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let dayOfMonth = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        let year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0)
        return [padded(year, to: 4), padded(month, to: 2), padded(dayOfMonth, to: 2)]
            .joined(separator: "-")
    }

    private static func padded(_ number: UInt64, to width: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(width - text.count, 0)) + text
    }
}
