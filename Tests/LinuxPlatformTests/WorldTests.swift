import Bytes
import Foundation
import LinuxPlatform
import Seams
import TestSupport
import Testing

@Suite struct WorldTests {
    @Test func environmentServesConnectionsUntilItIsStopped() throws {
        let world = LinuxEnvironment.make(reactors: 3, logLevel: .error)
        let environment = world.environment
        #expect(environment.lanes.reactorCount == 3)
        #expect(environment.network.quiescence.reactorCount == 3)
        let listener = try environment.network.listen(on: anyPort) { _ in ClosureHandler.echo() }
        let client = try TestSocket(to: listener.address)
        try client.send([1, 2, 3])
        #expect(client.receive(3) == [1, 2, 3])
        listener.close()
        world.stop()
        #expect(throws: NetworkError.self) {
            try environment.network.listen(on: anyPort) { _ in ClosureHandler.echo() }
        }
    }

    @Test func monotonicClockNeverGoesBackAndWallClockIsCurrent() {
        let clock = LinuxClock()
        var last = clock.monotonicNanoseconds()
        for _ in 0..<10_000 {
            let now = clock.monotonicNanoseconds()
            #expect(now >= last)
            last = now
        }
        let wall = Double(clock.wallNanoseconds()) / 1e9
        #expect(abs(wall - Date().timeIntervalSince1970) < 60)
    }

    @Test func entropyVariesEveryBitAndRepeatsNoValue() {
        let entropy = LinuxEntropy()
        let values = (0..<1_000).map { _ in entropy.next() }
        #expect(Set(values).count == 1_000)
        #expect(values.reduce(0, |) == .max)
        #expect(values.reduce(.max, &) == 0)
        #expect(entropy.bytes(37).count == 37)
    }

    @Test func logLineHasTimeLevelAndModuleAndEscapesNewlines() throws {
        let pipe = Pipe()
        let trace = LogTrace(
            threshold: .info,
            descriptor: pipe.fileHandleForWriting.fileDescriptor
        )
        trace.log(.debug, "network", message: "not logged")
        trace.info("network", "listening on 127.0.0.1:11210")
        trace.warning("disk", "two\nlines and a bell\u{7}, straße")
        try pipe.fileHandleForWriting.close()
        let content = try pipe.fileHandleForReading.readToEnd() ?? Data()
        let text = String(decoding: content, as: UTF8.self)
        let lines = text.split(separator: "\n")
        #expect(lines.count == 2)
        let time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\s/
        for line in lines { #expect(line.firstMatch(of: time) != nil) }
        #expect(lines[0].hasSuffix(" info  network: listening on 127.0.0.1:11210"))
        #expect(lines[1].hasSuffix(#" warn  disk: two\x0alines and a bell\x07, straße"#))
        let today = Date().formatted(.iso8601.year().month().day())
        #expect(lines[0].hasPrefix(today) || Date().isJustAfterMidnight)
    }

    @Test func logLinesNameTheNodeAndTheBucketInBothFormats() throws {
        func lines(_ format: LogFormat) throws -> [Substring] {
            let pipe = Pipe()
            let trace = LogTrace(
                format: format,
                descriptor: pipe.fileHandleForWriting.fileDescriptor
            )
            trace.info("network", "before a name")
            trace.identify(node: "n_8091@h")
            trace.warning("flusher", bucket: "b", "a \"disk\" \\ is\nfull\u{7f}, straße")
            trace.error("peers", "no bucket")
            try pipe.fileHandleForWriting.close()
            let content = try pipe.fileHandleForReading.readToEnd() ?? Data()
            return String(decoding: content, as: UTF8.self).split(separator: "\n")
        }
        let text = try lines(.text).map { $0.dropFirst(25) }
        #expect(
            text == [
                "info  network: before a name",
                #"warn  flusher [n_8091@h b]: a "disk" \ is\x0afull\x7f, straße"#,
                "error peers [n_8091@h]: no bucket",
            ]
        )
        struct Line: Decodable {
            let time, severity, component, message: String
            let node, bucket: String?
        }
        let json = try lines(.json)
        #expect(json[0].hasSuffix(#""node":null,"bucket":null,"message":"before a name"}"#))
        let line = try JSONDecoder().decode(Line.self, from: Data(json[1].utf8))
        #expect(line.severity == "warning" && line.component == "flusher")
        #expect(line.node == "n_8091@h" && line.bucket == "b")
        #expect(line.message == "a \"disk\" \\ is\nfull\u{7f}, straße")
        #expect(line.time.firstMatch(of: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) != nil)
        #expect(json.count == 3)
    }

    @Test func signalIsReceivedOnTheThreadOfTheWatch() async throws {
        let received = Signal<Int32>()
        // A watch exists for the process's lifetime, as in `main`.
        _ = SignalWatch([SIGUSR2]) { received.send($0) }
        kill(getpid(), SIGUSR2)
        #expect(await received.wait() == [SIGUSR2])
        kill(getpid(), SIGUSR2)
        #expect(await received.wait(2) == [SIGUSR2, SIGUSR2])
    }
}

extension Date {
    fileprivate var isJustAfterMidnight: Bool {
        timeIntervalSince1970.truncatingRemainder(dividingBy: 86_400) < 60
    }
}
