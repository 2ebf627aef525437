internal import Bytes

/// Why a query is refused before it runs: an HTTP status, and the two members of its answer.
///
/// The texts are those of Couchbase Server where it has one, because applications compare them.
package struct QueryRefusal: Error, Equatable, Sendable {
    package let status: Int
    /// Couchbase's name of the kind of error, such as `query_parse_error`.
    package let error: String
    package let reason: String

    package init(status: Int, error: String, reason: String) {
        self.status = status
        self.error = error
        self.reason = reason
    }

    /// A parameter that has no meaning, alone or together with the others.
    static func parameter(_ reason: String) -> QueryRefusal {
        QueryRefusal(status: 400, error: "query_parse_error", reason: reason)
    }

    /// A request of the wrong form.
    static func request(_ reason: String) -> QueryRefusal {
        QueryRefusal(status: 400, error: "bad_request", reason: reason)
    }

    static func invalidJSON(_ text: ByteView) -> QueryRefusal {
        let shown = text.slice(0, min(text.count, textBytesMax))
        return .request("invalid UTF-8 JSON: \(quoted(shown))")
    }

    /// Bytes of a rejected value that a refusal repeats: enough to recognise it.
    private static let textBytesMax = 256

    /// A value as Couchbase's messages print it: quoted, and `[]` if it is empty.
    static func quoted(_ value: ByteView) -> String {
        if value.isEmpty { return "[]" }
        var text = "\""
        for scalar in value.text.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text + "\""
    }
}
