package import Bytes

/// The names in a client's certificate, whose chain and key the connection has verified.
///
/// - Each list has the order of the certificate.
package struct ClientCertificate: Hashable, Sendable {
    /// A place of a certificate that may name a user; raw values are those of `/settings/clientCertAuth`.
    package enum Path: String, CaseIterable, Sendable {
        case commonName = "subject.cn"
        case uri = "san.uri"
        case dnsName = "san.dnsname"
        case email = "san.email"
    }

    /// The names by place.
    package var names: [Path: [String]]

    package init(names: [Path: [String]] = [:]) {
        self.names = names
    }
}

/// A version of TLS, as the lowest one that is accepted.
package enum TLSVersion: UInt8, CaseIterable, Sendable {
    case tls12 = 0
    case tls13 = 1

    /// The name in `/settings/security`.
    package var name: String { self == .tls12 ? "tlsv1.2" : "tlsv1.3" }
}

/// Whether clients with TLS prove a certificate.
package enum ClientCertificateState: UInt8, CaseIterable, Sendable {
    /// The server requests none.
    case disable = 0
    /// A client may prove one; without one it needs a password.
    case enable = 1
    /// A client without one is refused in the handshake.
    case mandatory = 2

    /// The name in `/settings/clientCertAuth`.
    package var name: String {
        switch self {
        case .disable: "disable"
        case .enable: "enable"
        case .mandatory: "mandatory"
        }
    }
}

/// One rule by which a certificate names a user.
package struct ClientCertificateRule: Hashable, Sendable {
    package var path: ClientCertificate.Path
    /// A name without this prefix is passed over; the prefix is removed.
    package var prefix: String
    /// The name ends before the first of these characters; the name is whole if there are none.
    package var delimiter: String

    package init(path: ClientCertificate.Path, prefix: String, delimiter: String) {
        self.path = path
        self.prefix = prefix
        self.delimiter = delimiter
    }

    /// The user that a certificate names by this rule; nil if it names none.
    package func user(of certificate: ClientCertificate) -> String? {
        for name in certificate.names[path] ?? [] where name.hasPrefix(prefix) {
            let rest = name.dropFirst(prefix.count)
            let end = rest.firstIndex { delimiter.contains($0) } ?? rest.endIndex
            if rest.startIndex < end { return String(rest[..<end]) }
        }
        return nil
    }
}

/// How clients prove users by certificates; `/settings/clientCertAuth` shows it.
package struct ClientCertificateSettings: Hashable, Sendable, CodedFields {
    /// As many rules as Couchbase Server accepts.
    package static let rulesMax = 10

    package var state = ClientCertificateState.disable
    /// The first rule by which a certificate names a user counts.
    package var rules: [ClientCertificateRule] = []

    package init() {}

    /// The user that a certificate names; nil if no rule finds a name.
    package func user(of certificate: ClientCertificate) -> String? {
        rules.lazy.compactMap { $0.user(of: certificate) }.first
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.choice(&state, "state of certificates")
        let blank = ClientCertificateRule(path: .commonName, prefix: "", delimiter: "")
        try coder.list(&rules, "rules", blank: blank) { coder, rule throws(CodingFailure) in
            var path = rule.path.rawValue
            try coder.field(&path, "path")
            guard let known = ClientCertificate.Path(rawValue: path) else {
                return try coder.require(false, "path")
            }
            rule.path = known
            try coder.field(&rule.prefix, "prefix")
            try coder.field(&rule.delimiter, "delimiter")
        }
    }
}
