internal import Glibc
internal import Seams

/// The form of the log's lines.
package enum LogFormat: String, CaseIterable, Sendable {
    /// `TIME SEVERITY COMPONENT [NODE BUCKET]: MESSAGE`, for people.
    case text
    /// An object with the fields of `LogLine`, for programs; each line has all fields.
    case json
}

/// One event of the log.
struct LogLine {
    let wallNanoseconds: UInt64
    let severity: Severity
    let component: String
    /// The node's name in its cluster; nil before it has one.
    let node: String?
    /// The bucket that the event is about; nil if it is about no single one.
    let bucket: String?
    let message: String

    /// The line, with its newline; control characters are escaped.
    func bytes(_ format: LogFormat) -> [UInt8] {
        switch format {
        case .text: text
        case .json: json
        }
    }

    private var text: [UInt8] {
        var line = Self.timestamp(wallNanoseconds)
        let word = severity == .warning ? "warn" : name
        let places = [node, bucket].compactMap(\.self).joined(separator: " ")
        let padding = String(repeating: " ", count: 5 - word.utf8.count)
        let place = places.isEmpty ? "" : " [\(places)]"
        line.append(contentsOf: " \(word)\(padding) \(component)\(place): ".utf8)
        Self.append(message, to: &line)
        return line
    }

    /// A line of the time and a text, with its newline; control characters are escaped.
    static func announcement(at wallNanoseconds: UInt64, _ text: String) -> [UInt8] {
        var line = timestamp(wallNanoseconds) + [UInt8(ascii: " ")]
        append(text, to: &line)
        return line
    }

    private static func append(_ message: String, to line: inout [UInt8]) {
        for byte in message.utf8 {
            if byte >= 0x20 && byte != 0x7f {
                line.append(byte)
            } else {
                line.append(contentsOf: "\\x".utf8)
                line.append(contentsOf: hex(byte))
            }
        }
        line.append(UInt8(ascii: "\n"))
    }

    private var json: [UInt8] {
        var line = Array("{\"time\":\"".utf8) + Self.timestamp(wallNanoseconds) + Array("\"".utf8)
        for (field, value) in [
            ("severity", name), ("component", component), ("node", node), ("bucket", bucket),
            ("message", message),
        ] {
            line.append(contentsOf: ",\"\(field)\":".utf8)
            line.append(contentsOf: value.map(Self.string) ?? Array("null".utf8))
        }
        line.append(contentsOf: "}\n".utf8)
        return line
    }

    private var name: String { "\(severity)" }

    /// A string of JSON.
    private static func string(_ text: String) -> [UInt8] {
        var bytes = [UInt8(ascii: "\"")]
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case 0..<0x20, 0x7f: bytes += Array("\\u00".utf8) + hex(byte)
            default: bytes.append(byte)
            }
        }
        return bytes + [UInt8(ascii: "\"")]
    }

    private static func hex(_ byte: UInt8) -> [UInt8] {
        let digits = Array("0123456789abcdef".utf8)
        return [digits[Int(byte >> 4)], digits[Int(byte & 15)]]
    }

    private static func timestamp(_ wallNanoseconds: UInt64) -> [UInt8] {
        var seconds = time_t(wallNanoseconds / 1_000_000_000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func digits(_ value: Int32, _ width: Int) -> String {
            let text = String(value)
            return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
        }
        let date =
            "\(digits(parts.tm_year + 1_900, 4))-\(digits(parts.tm_mon + 1, 2))"
            + "-\(digits(parts.tm_mday, 2))"
        let time =
            "\(digits(parts.tm_hour, 2)):\(digits(parts.tm_min, 2)):\(digits(parts.tm_sec, 2))"
        let milliseconds = Int32(wallNanoseconds / 1_000_000 % 1_000)
        return Array("\(date)T\(time).\(digits(milliseconds, 3))Z".utf8)
    }
}
