internal import Bytes
internal import Foundation

/// Makes the field `Date` of responses (RFC 9110, 5.6.7), once a second.
final class ResponseDates: Sendable {
    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private let last = Guarded((seconds: Int.min, text: ""))

    /// The date of a time since 1970, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    func text(atSeconds seconds: Int) -> String {
        last.withLock { last in
            if last.seconds != seconds { last = (seconds, Self.text(seconds)) }
            return last.text
        }
    }

    private static func text(_ seconds: Int) -> String {
        var seconds = time_t(seconds)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func padded(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let date =
            "\(days[Int(parts.tm_wday)]), \(padded(parts.tm_mday)) \(months[Int(parts.tm_mon)])"
            + " \(parts.tm_year + 1_900)"
        let time = "\(padded(parts.tm_hour)):\(padded(parts.tm_min)):\(padded(parts.tm_sec))"
        return "\(date) \(time) GMT"
    }
}
