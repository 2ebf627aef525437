import Foundation
import SyncFrontend
import Testing

/// TLS with the certificate and the key of files, by OpenSSL's own client.
@Suite struct TLSTests {
    /// A certificate that a test has made, in a directory of its own.
    private final class Files {
        let directory: String
        var certificate: String { "\(directory)/cert" }
        var key: String { "\(directory)/key" }

        init() throws {
            let place = FileManager.default.temporaryDirectory.appendingPathComponent(
                "divan-tls-\(UUID().uuidString)"
            )
            try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
            directory = place.path
            _ = try TLSTests.run([
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "\(directory)/key",
                "-out", "\(directory)/cert",
            ])
        }

        deinit { try? FileManager.default.removeItem(atPath: directory) }
    }

    /// Runs `openssl` with these arguments and this input; returns what it prints.
    private static func run(_ arguments: [String], input: String = "") throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = arguments
        let (inward, outward) = (Pipe(), Pipe())
        process.standardInput = inward
        process.standardOutput = outward
        process.standardError = FileHandle.nullDevice
        try process.run()
        try inward.fileHandleForWriting.write(contentsOf: Data(input.utf8))
        let output = try outward.fileHandleForReading.readToEnd() ?? Data()
        try inward.fileHandleForWriting.close()
        process.waitUntilExit()
        return String(decoding: output, as: UTF8.self)
    }

    private static func site(_ files: Files) throws -> (Site, Int) {
        let site = try Site {
            [
                GatewayRoute([.get], "/{db}/") { $0.answer(text: $0.parameters["db"]) },
                GatewayRoute([.get], "/{db}/{doc}") { exchange in
                    exchange.answer(text: String(repeating: "x", count: 1_000_000))
                },
            ]
        }
        let listener = GatewayListener(
            .publicPort,
            host: "127.0.0.1",
            port: 0,
            security: try TLSCertificate(certificate: files.certificate, key: files.key)
        )
        return (site, try site.server.listen(listener))
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func requestsAreServedOverTLS(_ version: String) throws {
        let files = try Files()
        let (site, port) = try Self.site(files)
        let output = try Self.run(
            [
                "s_client", "-connect", "127.0.0.1:\(port)", version, "-quiet", "-CAfile",
                "\(files.directory)/cert", "-verify_return_error",
            ],
            input: request("GET /first/") + request("GET /db/doc")
                + request("GET /last/", "Connection: close")
        )
        #expect(output.contains("\r\n\r\nfirst"))
        #expect(output.utf8.count > 1_000_000)
        #expect(output.hasSuffix("\r\n\r\nlast"))
        _ = site
    }

    @Test func clearTextRequestOnTLSPortIsClosed() throws {
        let files = try Files()
        let (site, port) = try Self.site(files)
        let client = try RawClient(port: port)
        try client.send(request("GET /db/"))
        #expect(client.isClosed())
        _ = site
    }

    @Test func filesThatCannotBeUsedAreAnErrorForTheOperator() throws {
        let files = try Files()
        let other = try Files()
        for (certificate, key) in [
            ("/nonexistent", files.key), (files.certificate, other.key), (files.key, files.key),
        ] {
            #expect(throws: GatewayServerError.self) {
                try TLSCertificate(certificate: certificate, key: key)
            }
        }
    }
}
