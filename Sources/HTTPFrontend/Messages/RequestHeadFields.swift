/// The fields of a request's head that the ports read.
///
/// If a field of which one counts were repeated, this node might read another one than a proxy before it, which
/// then checked the wrong login or site (RFC 9112, 11.2). So `HeadLimit` refuses such a request.
package enum RequestField: Int, CaseIterable, Sendable {
    case authorization
    case contentType
    case cookie
    case host
    case ifMatch
    case ifNoneMatch
    case invalidAuthResponse
    case lastEventID
    case nsServerUI
    case origin
    case secFetchSite
    case xForwardedHost

    /// The name as requests usually have it; names are compared without regard to case.
    package var name: String {
        switch self {
        case .authorization: "Authorization"
        case .contentType: "Content-Type"
        case .cookie: "Cookie"
        case .host: "Host"
        case .ifMatch: "If-Match"
        case .ifNoneMatch: "If-None-Match"
        case .invalidAuthResponse: "invalid-auth-response"
        case .lastEventID: "Last-Event-ID"
        case .nsServerUI: "ns-server-ui"
        case .origin: "Origin"
        case .secFetchSite: "Sec-Fetch-Site"
        case .xForwardedHost: "X-Forwarded-Host"
        }
    }

    /// Whether several fields are one list (RFC 9110, 5.3), because each proxy may add its own.
    package var isList: Bool { self == .xForwardedHost }

    /// The field with a name; nil if the ports do not read it.
    init?(named name: String) {
        let found = Self.allCases.first { field in
            let own = field.name.utf8
            return own.count == name.utf8.count
                && zip(own, name.utf8).allSatisfy { $0 == $1 || Self.lower($0) == Self.lower($1) }
        }
        guard let found else { return nil }
        self = found
    }

    private static func lower(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }
}

/// The values of the fields of a request's head that the ports read.
struct RequestHeadFields: Sendable {
    private var values = [String?](repeating: nil, count: RequestField.allCases.count)

    init(_ fields: some Sequence<(name: String, value: String)>) {
        for (name, value) in fields {
            if let field = RequestField(named: name) { add(field, value) }
        }
    }

    /// The value of a field; nil if the request does not have it.
    subscript(field: RequestField) -> String? { values[field.rawValue] }

    private mutating func add(_ field: RequestField, _ value: String) {
        guard let first = values[field.rawValue] else {
            values[field.rawValue] = value
            return
        }
        if field.isList { values[field.rawValue] = "\(first), \(value)" }
    }

    /// Why a head is refused for its fields: one of which one counts is repeated, or HTTP/1.1 requires
    /// one that is missing (RFC 9112, 3.2); nil if it is not.
    ///
    /// - Parameters:
    ///   - names: The names of all fields.
    ///   - requiresHost: Whether the request's version requires the field `Host`.
    /// - Returns: The cause and the remedy, as sentences for users.
    static func flaw(of names: some Sequence<String>, requiresHost: Bool) -> String? {
        var seen: UInt = 0
        for name in names {
            guard let field = RequestField(named: name), !field.isList else { continue }
            let bit: UInt = 1 << UInt(field.rawValue)
            if seen & bit != 0 {
                return
                    "The request has more than one field \(field.name), of which only one can count."
                    + " Send one."
            }
            seen |= bit
        }
        guard requiresHost, seen & (1 << UInt(RequestField.host.rawValue)) == 0 else { return nil }
        return
            "The request has no field Host, which HTTP/1.1 requires. Send the address and the port of"
            + " this node as Host, or send HTTP/1.0."
    }
}
