internal import Foundation

/// The admin port of one node: a minimal HTTP client, with one connection for each request.
///
/// It speaks HTTP/1.0, in which a body ends with the connection and has no chunks.
struct AdminClient {
    let port: Int
    let credentials: Credentials
    /// How long an answer may take.
    var timeoutSeconds = 30

    /// The same node, with a timeout for slow requests.
    var patient: AdminClient { AdminClient(port: port, credentials: credentials) }

    struct Reply {
        let status: Int
        let body: [UInt8]
        /// The node reaches no leader: its answer may be outdated.
        let isStale: Bool

        var text: String { String(decoding: body, as: UTF8.self) }

        func json<Value: Decodable>(_ type: Value.Type) throws -> Value {
            do {
                return try JSONDecoder().decode(type, from: Data(body))
            } catch {
                throw Refusal("The node's answer has an unexpected form: \(text.prefix(200))")
            }
        }
    }

    /// Whether the node is provisioned as a member of a cluster.
    var hasCluster: Bool {
        get throws {
            struct Pools: Decodable {
                struct Pool: Decodable {}

                let pools: [Pool]
            }

            return try !require("GET", "/pools").json(Pools.self).pools.isEmpty
        }
    }

    /// Sends a request that must succeed: any other answer is thrown in the server's words.
    @discardableResult
    func require(
        _ method: String,
        _ path: String,
        form: [(String, String)] = [],
        json: String? = nil
    ) throws -> Reply {
        let reply = try request(method, path, form: form, json: json)
        guard (200...299).contains(reply.status) else {
            if reply.status == 401 { throw wrongPassword }
            throw Refusal("\(method) \(path) was answered \(reply.status): \(reply.text)")
        }
        return reply
    }

    /// The refusal of a request that was answered 401.
    var wrongPassword: Refusal {
        var refusal = Refusal(
            "The cluster refused user \(credentials.user) with this password.",
            cure: "Set DIVAN_USER and DIVAN_PASSWORD as when it was started, or use another --dir."
        )
        refusal.isOfLogin = true
        return refusal
    }

    func request(
        _ method: String,
        _ path: String,
        form: [(String, String)] = [],
        json: String? = nil
    ) throws -> Reply {
        let socket = try Socket(port: port, timeoutSeconds: timeoutSeconds)
        let login = Data("\(credentials.user):\(credentials.password)".utf8)
        let fields = form.map { "\(encoded($0.0))=\(encoded($0.1))" }.joined(separator: "&")
        let body = json ?? fields
        var lines = [
            "\(method) \(path) HTTP/1.0", "Host: 127.0.0.1:\(port)",
            "Authorization: Basic \(login.base64EncodedString())",
        ]
        if method == "POST" || json != nil {
            let type = json == nil ? "application/x-www-form-urlencoded" : "application/json"
            lines += ["Content-Type: \(type)", "Content-Length: \(body.utf8.count)"]
        }
        try socket.send(Array((lines.joined(separator: "\r\n") + "\r\n\r\n" + body).utf8))
        var bytes: [UInt8] = []
        while true {
            let more = try socket.receive()
            if more.isEmpty { break }
            bytes += more
        }
        return try parse(bytes)
    }

    private func parse(_ bytes: [UInt8]) throws -> Reply {
        let data = Data(bytes)
        guard let end = data.range(of: Data("\r\n\r\n".utf8)) else {
            throw Refusal("Port \(port) does not answer as an HTTP server.")
        }
        let head = String(decoding: data[..<end.lowerBound], as: UTF8.self)
        let lines = head.split(separator: "\r\n")
        let words = lines.first?.split(separator: " ") ?? []
        guard words.count >= 2, let status = Int(words[1]) else {
            throw Refusal("Port \(port) does not answer as an HTTP server: \(head)")
        }
        return Reply(
            status: status,
            body: Array(data[end.upperBound...]),
            isStale: lines.contains { $0.lowercased() == "divan-stale: true" }
        )
    }

    private func encoded(_ text: String) -> String {
        let plain = CharacterSet.alphanumerics.union(CharacterSet(charactersIn: "-._~"))
            .intersection(CharacterSet(charactersIn: Unicode.Scalar(0)..."\u{7f}"))
        return text.addingPercentEncoding(withAllowedCharacters: plain) ?? text
    }
}
