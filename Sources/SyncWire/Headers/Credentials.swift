package import Bytes

/// A name and a password as a device sends them.
package struct BasicCredentials: Hashable, Sendable {
    package let name: String
    package let password: String

    /// Longer headers are none.
    private static let bytesMax = 8 << 10

    package init(name: String, password: String) {
        self.name = name
        self.password = password
    }

    /// Parses the value of `Authorization`, `Basic BASE64(NAME:PASSWORD)` in UTF-8 (RFC 7617).
    ///
    /// Nil for other schemes, and if the value is invalid. The password may have colons.
    package init?(authorization value: String) {
        let bytes = Array(value.utf8)
        let parsed = bytes.withUnsafeBytes { buffer -> BasicCredentials? in
            guard let (scheme, rest) = ASCII.cut(ASCII.trimmed(ByteView(buffer)), at: " "),
                ASCII.equals(scheme, "basic"), rest.count <= BasicCredentials.bytesMax,
                let decoded = Base64.decode(ASCII.trimmed(rest))
            else { return nil }
            return decoded.withUnsafeBytes {
                BasicCredentials.parts(of: ByteView($0)) { text in
                    String(validating: text.buffer, as: UTF8.self)
                }
            }
        }
        guard let parsed else { return nil }
        self = parsed
    }

    /// Parses the login of a URL, `NAME:PASSWORD` with each part percent-encoded.
    ///
    /// Nil if there is no colon, or a part cannot be decoded. A base64 password may have an unescaped `+`, which
    /// is no blank here.
    package init?(userInfo: ByteView) {
        guard let parsed = BasicCredentials.parts(of: userInfo, { PercentCoding.decode($0) }) else {
            return nil
        }
        self = parsed
    }

    /// The value of `Authorization`.
    package var authorization: String {
        let encoded = Array("\(name):\(password)".utf8).withUnsafeBytes {
            Base64.encode(ByteView($0))
        }
        return "Basic \(String(decoding: encoded, as: UTF8.self))"
    }

    private static func parts(
        of text: ByteView,
        _ decode: (ByteView) -> String?
    ) -> BasicCredentials? {
        guard let (name, password) = ASCII.cut(text, at: ":"), let name = decode(name),
            let password = decode(password)
        else { return nil }
        return BasicCredentials(name: name, password: password)
    }
}

/// Cookies of sessions.
package enum SessionCookie {
    package static let name = "SyncGatewaySession"

    /// The value of the cookie `name` in a header `Cookie`; nil if there is none.
    ///
    /// Quotes around the value are removed.
    package static func value(of name: String, in header: String) -> String? {
        let bytes = Array(header.utf8)
        return bytes.withUnsafeBytes { buffer in
            for part in ASCII.split(ByteView(buffer), at: ";") {
                guard let (found, value) = ASCII.cut(ASCII.trimmed(part), at: "="),
                    ASCII.trimmed(found).text == name
                else { continue }
                let text = ASCII.trimmed(value)
                let isQuoted =
                    text.count >= 2 && text[0] == UInt8(ascii: "\"")
                    && text[text.count - 1] == UInt8(ascii: "\"")
                return (isQuoted ? text.slice(1, text.count - 2) : text).text
            }
            return nil
        }
    }

    /// How a browser may send a cookie.
    package struct Flags: Equatable, Sendable {
        package let isSecure: Bool
        package let isHTTPOnly: Bool

        package init(isSecure: Bool = false, isHTTPOnly: Bool = false) {
            self.isSecure = isSecure
            self.isHTTPOnly = isHTTPOnly
        }
    }

    /// The value of `Set-Cookie` that deletes a cookie, as Sync Gateway writes it; `now` is in seconds since 1970.
    ///
    /// Without a path, the cookie of the request's directory is deleted, which is the database's.
    package static func deletion(of name: String, now: Int) -> String {
        "\(name)=; Expires=\(CalendarTime.httpText(unixSeconds: now))"
    }

    /// The value of `Set-Cookie`: `NAME=ID; Path=/DB; Expires=DATE`.
    ///
    /// `expiry` is in seconds since 1970.
    package static func setting(
        _ name: String = name,
        id: String,
        database: String,
        expiry: Int,
        flags: Flags = Flags()
    ) -> String {
        "\(name)=\(id); Path=/\(PercentCoding.encode(database)); "
            + "Expires=\(CalendarTime.httpText(unixSeconds: expiry))"
            + (flags.isHTTPOnly ? "; HttpOnly" : "") + (flags.isSecure ? "; Secure" : "")
    }
}

/// Revisions and digests in `Etag` and `If-Match`.
package enum EntityTag {
    /// The value of `Etag`.
    package static func quoted(_ text: String) -> String { PartHeaders.quoted(text) }

    /// The text of the value of `If-Match` or `If-None-Match`: of a quoted tag, also a weak one, or of an unquoted
    /// one, as Sync Gateway accepts.
    ///
    /// Nil if it is empty. `*` is the text `*`.
    package static func text(of value: String) -> String? {
        let bytes = Array(value.utf8)
        return bytes.withUnsafeBytes { buffer in
            var text = ASCII.trimmed(ByteView(buffer))
            if text.count >= 2, ASCII.equals(text.slice(0, 2), "W/") { text = text.dropFirst(2) }
            if text.isEmpty { return nil }
            guard text[0] == UInt8(ascii: "\"") else { return text.text }
            return HeaderText.unquote(text)?.value
        }
    }
}
