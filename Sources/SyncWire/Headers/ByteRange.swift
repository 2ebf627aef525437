internal import Bytes

/// The part of an attachment that a request asks for: the header `Range`.
///
/// Only one range is served. A header that is invalid, or has another unit or several ranges, is ignored, as RFC
/// 9110 (section 14.2) allows and Sync Gateway does.
package enum ByteRange: Equatable, Sendable {
    /// Status 200.
    case whole
    /// Status 206: `offset..<offset + count` of the body, at least one byte and not the whole.
    case part(offset: Int, count: Int)
    /// Status 416: the range begins behind the last byte.
    case unsatisfiable

    /// Resolves a header's value, nil if there is none, for a body of `length` bytes.
    package init(_ value: String?, length: Int) {
        let bytes = Array((value ?? "").utf8)
        self = bytes.withUnsafeBytes { ByteRange.resolve(ByteView($0), length: length) }
    }

    /// The value of `Content-Range`; nil for the whole.
    package func contentRange(length: Int) -> String? {
        switch self {
        case .whole: nil
        case .part(let offset, let count): "bytes \(offset)-\(offset + count - 1)/\(length)"
        case .unsatisfiable: "bytes */\(length)"
        }
    }

    private static func resolve(_ text: ByteView, length: Int) -> ByteRange {
        guard let (unit, range) = ASCII.cut(text, at: "="),
            ASCII.equals(ASCII.trimmed(unit), "bytes"),
            let (firstText, lastText) = ASCII.cut(ASCII.trimmed(range), at: "-")
        else { return .whole }
        let first = ASCII.number(firstText, as: Int.self)
        let last = ASCII.number(lastText, as: Int.self)
        // A number that is absent is an empty text; any other text makes the header invalid.
        guard (first != nil || firstText.isEmpty) && (last != nil || lastText.isEmpty) else {
            return .whole
        }
        switch (first, last) {
        case (let first?, let last?) where first > last: return .whole
        case (let first?, _):
            guard first < length else { return .unsatisfiable }
            let end = min(last ?? length - 1, length - 1) + 1
            return part(from: first, to: end, of: length)
        case (nil, let count?):
            guard count > 0 else { return .unsatisfiable }
            return part(from: max(length - count, 0), to: length, of: length)
        case (nil, nil): return .whole
        }
    }

    private static func part(from offset: Int, to end: Int, of length: Int) -> ByteRange {
        offset == 0 && end == length ? .whole : .part(offset: offset, count: end - offset)
    }
}
