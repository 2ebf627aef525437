import Bytes
import Glibc
import LinuxPlatform
import Seams

// A front for tests: forks a spawner, confines itself, and then obeys the lines on descriptor 3.
//
// `start SCRIPT` starts a shell, whose lines it repeats; `try` reports what the confined process may do;
// `stop` ends it as a program ends. Lines go to standard error.

/// Repeats the lines of a child, and its end.
final class Repeater: ChildHandler {
    func received(_ input: ByteView) -> Int { input.count }
    func logged(_ line: String) { ProcessEnd.report("child \(line)") }
    func drained() {}
    func closed() {}
    func ended(_ end: ChildEnd) { ProcessEnd.report("ended \(end)") }
}

let rules = SpawnRules(directory: "/bin", ["sh": { _ in true }])
let spawner: Spawner
do {
    spawner = try Spawner.fork(rules)
} catch {
    ProcessEnd.report("failed \(error)")
    ProcessEnd.exit(1)
}
var attempts = Attempts()
let lane = LinuxLanes(reactorCount: 1).makeLane("handlers")
let children = SpawnerChildren(spawner, trace: LogTrace())
if let failure = FrontConfinement.begin() {
    ProcessEnd.report("failed \(failure)")
    ProcessEnd.exit(1)
}
attempts.claimPort()
if let failure = FrontConfinement.finish() {
    ProcessEnd.report("failed \(failure)")
    ProcessEnd.exit(1)
}
ProcessEnd.report("ready \(getpid())")

guard let commands = InheritedSocket(descriptor: 3) else { ProcessEnd.exit(64) }
let input = ByteWriter()
var running: [any ChildProcess] = []
while commands.read(into: input, bytesMax: 4_096) {
    while let end = input.view.buffer.firstIndex(of: UInt8(ascii: "\n")) {
        let line = String(decoding: input.view.buffer.prefix(end), as: UTF8.self)
        input.removeFirst(end + 1)
        if line == "stop" {
            children.stop()
            ProcessEnd.report("stopped")
            ProcessEnd.exit(0)
        } else if line == "try" {
            for (name, outcome) in attempts.outcomes() { ProcessEnd.report("\(name): \(outcome)") }
        } else if line == "resident" {
            ProcessEnd.report("resident \((running.last?.residentBytes ?? 0) > 100_000)")
        } else if line.hasPrefix("start ") {
            let arguments = ["-c", String(line.dropFirst(6))]
            let program = ChildProgram("sh", arguments: arguments)
            running.append(children.start(program, on: lane, Repeater()))
        }
    }
}
