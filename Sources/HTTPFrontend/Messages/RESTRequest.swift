internal import Bytes
internal import Orchestration

/// A request independent of sockets and the framework.
struct RESTRequest: Sendable {
    enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case delete = "DELETE"
        case head = "HEAD"
        case other = ""

        /// The method whose route serves the request: GET for HEAD, whose reply omits the body.
        var routed: Method { self == .head ? .get : self }
    }

    let method: Method
    /// The path, split on `/` before decoding, so a segment may contain an encoded `/`; repeated
    /// and trailing slashes are ignored.
    let segments: [[UInt8]]
    let queryFields: FormFields
    /// The fields of the query that are UTF-8.
    let query: FormParameters
    /// Values by lowercase name; the last of several fields with a name.
    let headers: [String: String]
    /// The address the request arrived on, in digits, without brackets.
    let localAddress: String
    /// The target has bytes that are neither percent-encoded nor UTF-8; their values are lost.
    let isTargetDamaged: Bool
    var body: [UInt8] = []
    /// The connection on which the request arrived; nil if it has none.
    var connection: ConnectionWatch?

    init(
        method: String,
        target: String,
        headers: [String: String],
        localAddress: String
    ) {
        self.method = Method(rawValue: method) ?? .other
        let parts = target.split(
            separator: "?",
            maxSplits: 1,
            omittingEmptySubsequences: false
        )
        segments = (parts.first ?? "").split(separator: "/").map { URLCoding.decode($0.utf8) }
        queryFields = URLCoding.fields((parts.count == 2 ? parts[1] : "").utf8)
        query = queryFields.text
        // The framework's decoder substitutes the replacement character for such bytes.
        isTargetDamaged = target.unicodeScalars.contains("\u{FFFD}")
        self.headers = headers
        self.localAddress = localAddress
    }

    /// The body parsed as a form, whatever its content type: old tools send none.
    var formFields: FormFields { URLCoding.fields(body) }

    /// The fields of the form that are UTF-8: all of them, once the router has checked the form.
    var form: FormParameters { formFields.text }

    /// The media type without its parameters, lowercase; empty if the header is missing.
    var contentType: String {
        let type = headers["content-type"]?.split(separator: ";").first ?? ""
        return type.filter { $0 != " " }.lowercased()
    }

    /// The body begins with `{` or `[`, as no form does.
    var looksLikeJSON: Bool {
        let first = body.first { $0 > UInt8(ascii: " ") }
        return first == UInt8(ascii: "{") || first == UInt8(ascii: "[")
    }

    var isRead: Bool { method.routed == .get }

    /// `Basic` credentials; nil if they are missing or malformed.
    var basicCredentials: (user: String, password: String)? {
        guard let header = headers["authorization"] else { return nil }
        let parts = header.split(separator: " ")
        guard parts.count == 2, parts[0].lowercased() == "basic",
            let bytes = Array(parts[1].utf8).withUnsafeBytes({ Base64.decode(ByteView($0)) }),
            let text = String(validating: bytes, as: UTF8.self)
        else { return nil }
        guard let colon = text.firstIndex(of: ":") else { return nil }
        return (String(text[..<colon]), String(text[text.index(after: colon)...]))
    }

    /// A browser sent the request on behalf of another site's page.
    ///
    /// An unprovisioned node accepts every request; without this check any web site could control
    /// it through a user's browser.
    var isFromAnotherSite: Bool {
        guard method != .get, method != .head, let origin = headers["origin"] else { return false }
        return origin.split(separator: "/").last.map(String.init) != headers["host"]
    }

    /// The value of a cookie; nil if it is missing.
    func cookie(named name: String) -> String? {
        for pair in (headers["cookie"] ?? "").split(separator: ";") {
            let parts = pair.split(separator: "=", maxSplits: 1)
            guard parts.count == 2 else { continue }
            if parts[0].drop(while: { $0 == " " }) == name { return String(parts[1]) }
        }
        return nil
    }
}
