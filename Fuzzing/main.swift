import Bytes
import Glibc

/// One program for all targets: `divan-fuzz TARGET [libFuzzer's own arguments]`.
///
/// libFuzzer's runtime brings a `main` of its own; ours takes precedence and calls its driver.
private typealias Callback = @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt

@_silgen_name("LLVMFuzzerRunDriver")
private func runFuzzer(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
    _ callback: Callback
) -> CInt

/// What came, as a view of the fuzzer's own block.
private func view(_ start: UnsafePointer<UInt8>?, _ count: Int) -> ByteView {
    guard let start else { return .empty }
    return ByteView(start: UnsafeRawPointer(start), count: count)
}

private let targets: [String: Callback] = [
    "frames": { start, count in
        FrameTarget.run(view(start, count))
        return 0
    },
    "dispatcher": { start, count in
        DispatcherTarget.shared.run(view(start, count))
        return 0
    },
    "blocks": { start, count in
        BlockTarget.shared.run(view(start, count))
        return 0
    },
    "json": { start, count in
        JSONTarget.shared.run(view(start, count))
        return 0
    },
    "scram": { start, count in
        SCRAMTarget.shared.run(view(start, count))
        return 0
    },
]

guard CommandLine.arguments.count > 1, let callback = targets[CommandLine.arguments[1]] else {
    fatalError("usage: divan-fuzz \(targets.keys.sorted().joined(separator: "|")) [arguments]")
}
// The target's name goes; the rest is for libFuzzer.
var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv + 1
var count = CommandLine.argc - 1
exit(runFuzzer(&count, &arguments, callback))
