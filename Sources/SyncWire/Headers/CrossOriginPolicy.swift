/// Decides what web pages of other origins may do on the public port (the configuration's `CORS`).
///
/// - The administration port has no such answers.
package struct CrossOriginPolicy: Hashable, Sendable {
    package let origins: [String]
    package let loginOrigins: [String]
    package let headers: [String]
    package let maxAgeSeconds: Int

    package init(origins: [String], loginOrigins: [String], headers: [String], maxAgeSeconds: Int) {
        self.origins = origins
        self.loginOrigins = loginOrigins
        self.headers = headers
        self.maxAgeSeconds = maxAgeSeconds
    }

    package struct Header: Hashable, Sendable {
        package let name: String
        package let value: String
    }

    /// Makes the headers of an answer.
    ///
    /// An origin that is not allowed gets an empty `Access-Control-Allow-Origin`, as from Sync Gateway.
    ///
    /// - Parameters:
    ///   - origins: The values of `Origin`.
    ///   - methods: For `OPTIONS` and for 405: the methods of the path.
    /// - Returns: No headers if the request has no `Origin`.
    package func answerHeaders(origins: [String], methods: [String]? = nil) -> [Header] {
        guard !origins.isEmpty else { return [] }
        var found = [
            Header(
                name: "Access-Control-Allow-Origin",
                value: Self.match(origins, self.origins) ?? ""
            ),
            Header(name: "Access-Control-Allow-Credentials", value: "true"),
            Header(name: "Access-Control-Allow-Headers", value: headers.joined(separator: ", ")),
        ]
        if let methods {
            found.append(Header(name: "Access-Control-Max-Age", value: String(maxAgeSeconds)))
            found.append(
                Header(name: "Access-Control-Allow-Methods", value: methods.joined(separator: ", "))
            )
        }
        return found
    }

    /// Decides a login or a logout by `_session`, whose cookie a page of a strange origin must not get.
    ///
    /// - Parameters:
    ///   - origins: The values of `Origin`; a request without one is no page's.
    ///   - policy: Nil if the configuration has none.
    /// - Returns: Nil if the request is allowed.
    package static func refusal(
        ofLoginFrom origins: [String],
        _ policy: CrossOriginPolicy?
    ) -> Refusal? {
        if origins.isEmpty || match(origins, policy?.loginOrigins ?? []) != nil { return nil }
        return Refusal(400, "No CORS")
    }

    /// The first origin that is allowed by name, else `*` if that is allowed, else nil.
    private static func match(_ origins: [String], _ allowed: [String]) -> String? {
        origins.first { allowed.contains($0) } ?? (allowed.contains("*") ? "*" : nil)
    }
}
