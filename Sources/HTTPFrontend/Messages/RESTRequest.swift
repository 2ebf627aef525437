internal import Bytes
internal import Orchestration
internal import Vocabulary

/// The two ends of a request's connection.
struct ConnectionAddresses: Sendable {
    /// The address the request arrived on, in digits, without brackets.
    let local: String
    /// From where the client connected.
    let origin: ClientOrigin
}

/// A request independent of sockets and the framework.
struct RESTRequest: Sendable {
    enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case delete = "DELETE"
        case patch = "PATCH"
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
    let fields: RequestHeadFields
    /// The address the request arrived on, in digits, without brackets.
    let localAddress: String
    /// From where the client connected.
    let origin: ClientOrigin
    /// The target has bytes that are neither percent-encoded nor UTF-8; their values are lost.
    let isTargetDamaged: Bool
    var body: [UInt8] = []
    /// The connection on which the request arrived; nil if it has none.
    var connection: ConnectionWatch?
    /// The view query of the request, if it has begun already.
    var begunQuery: (any BegunViewQuery)?

    init(
        method: String,
        target: String,
        fields: RequestHeadFields,
        addresses: ConnectionAddresses
    ) {
        self.method = Method(rawValue: method) ?? .other
        // As bytes: characters take several times as long.
        let bytes = Array(target.utf8)
        let end = bytes.firstIndex(of: UInt8(ascii: "?")) ?? bytes.count
        segments = bytes[..<end].split(separator: UInt8(ascii: "/")).map { URLCoding.decode($0) }
        queryFields = URLCoding.fields(bytes[end...].dropFirst())
        query = queryFields.text
        // The framework's decoder substitutes the replacement character for such bytes. Other
        // characters begin with the same byte.
        isTargetDamaged =
            bytes.contains(0xef) && target.unicodeScalars.contains("\u{FFFD}")
        self.fields = fields
        localAddress = addresses.local
        origin = addresses.origin
    }

    /// The body parsed as a form, whatever its content type: old tools send none.
    var formFields: FormFields { URLCoding.fields(body) }

    /// The fields of the form that are UTF-8: all of them, once the router has checked the form.
    var form: FormParameters { formFields.text }

    /// The media type without its parameters, lowercase; empty if the header is missing.
    var contentType: String {
        let type = fields[.contentType]?.split(separator: ";").first ?? ""
        return type.filter { $0 != " " }.lowercased()
    }

    /// The body begins with `{` or `[`, as no form does.
    var looksLikeJSON: Bool {
        let first = body.first { $0 > UInt8(ascii: " ") }
        return first == UInt8(ascii: "{") || first == UInt8(ascii: "[")
    }

    var isRead: Bool { method.routed == .get }

    /// Whether others cannot read the request.
    var isSecured: Bool { connection?.secured != nil }

    /// `Basic` credentials; nil if they are missing or malformed.
    var basicCredentials: (user: String, password: String)? {
        guard var header = fields[.authorization],
            let bytes = header.withUTF8({ Self.basicLogin(UnsafeRawBufferPointer($0)) }),
            bytes.isText, let colon = bytes.firstIndex(of: UInt8(ascii: ":"))
        else { return nil }
        return (
            String(decoding: bytes[..<colon], as: UTF8.self),
            String(decoding: bytes[(colon + 1)...], as: UTF8.self)
        )
    }

    private static let basicScheme = Array("basic".utf8)

    /// The decoded second part of a header `Basic TEXT`; nil if it is malformed or of another scheme.
    private static func basicLogin(_ header: UnsafeRawBufferPointer) -> [UInt8]? {
        let parts = header.split(separator: UInt8(ascii: " "))
        guard parts.count == 2, parts[0].count == basicScheme.count,
            zip(parts[0], basicScheme).allSatisfy({ $0 | 0x20 == $1 })
        else { return nil }
        return Base64.decode(ByteView(UnsafeRawBufferPointer(rebasing: parts[1])))
    }

    /// A browser sent the request on behalf of another site's page.
    ///
    /// An unprovisioned node accepts every request from loopback; without this check any web site could
    /// control it through a user's browser. A proxy before the node may replace `Host`, so two other headers
    /// can show that the page is the node's own. A page cannot forge them: browsers reserve
    /// `Sec-Fetch-Site` for themselves, and send `X-Forwarded-Host` for a page of another site only
    /// after a preflight request, which is refused.
    var isFromAnotherSite: Bool {
        guard method != .get, method != .head, let origin = fields[.origin] else { return false }
        if fields[.secFetchSite] == "same-origin" { return false }
        let site = origin.split(separator: "/").last?.lowercased()
        let forwarded = (fields[.xForwardedHost] ?? "").split(separator: ",")
            .map { $0.filter { $0 != " " } }
        let hosts = [fields[.host] ?? ""] + forwarded
        return !hosts.contains { $0.lowercased() == site }
    }

    /// The cause of a refusal by `isFromAnotherSite`, and its cure.
    var anotherSiteReason: String {
        let (origin, host) = (fields[.origin] ?? "", fields[.host] ?? "")
        return
            "The request comes from a page of another site (Origin \(origin), Host \(host)) and is "
            + "refused. If a proxy replaces Host, let it keep Host or send X-Forwarded-Host, each with the port"
    }

    /// The cause of a refusal of a request over a plain port, and its cure.
    static let withoutTLSReason =
        "The cluster serves other machines over TLS only (clusterEncryptionLevel is strict). Use https and the "
        + "port with TLS, such as 18091."

    /// The cause of a refusal of the request's `Host`, and its cure.
    var foreignHostReason: String {
        let host =
            fields[.host].map { "The host name \($0.prefix(100))" } ?? "A missing host name"
        return
            "\(host) is not known as this node's, so the request needs a login on a node that has a "
            + "cluster. Use the node's address, or start the node with --host-name NAME."
    }

    /// The value of a cookie; nil if it is missing.
    func cookie(named name: String) -> String? {
        for pair in (fields[.cookie] ?? "").split(separator: ";") {
            let parts = pair.split(separator: "=", maxSplits: 1)
            guard parts.count == 2 else { continue }
            if parts[0].drop(while: { $0 == " " }) == name { return String(parts[1]) }
        }
        return nil
    }
}

extension RESTRequest {
    static let formType = "application/x-www-form-urlencoded"

    /// Content types with which tools send forms; empty if the header is missing.
    private static let formTypes: Set<String> = ["", formType, "application/json", "text/plain"]

    /// The error of a body that does not match the route's content type; nil if it matches or is
    /// empty.
    func flaw(ofBody kind: Route.Body) -> FieldError? {
        guard !body.isEmpty else { return nil }
        switch kind {
        // The view port has its own texts.
        case .raw, .document, .designDocument, .viewQuery:
            return nil
        case .json:
            guard contentType.hasPrefix("multipart/") else { return nil }
            return FieldError("_", unsupported("send JSON as application/json"))
        case .form:
            // Parsed as a form it would have no fields, and the error would name them as missing.
            guard Self.formTypes.contains(contentType) else {
                return FieldError("_", unsupported("send the fields as \(Self.formType)"))
            }
            if looksLikeJSON {
                let text = "The body is JSON, which is not supported here: send the fields as "
                return FieldError("_", text + Self.formType)
            }
            return formFields.illFormedField()
        }
    }

    /// A sentence with the unsupported content type and the remedy: the content type to send
    /// instead.
    func unsupported(_ remedy: String) -> String {
        let what =
            contentType.isEmpty ? "A body without a content type" : "Content type \(contentType)"
        return "\(what) is not supported here: \(remedy)"
    }
}
