import LinuxPlatform

/// `divan-script`: runs map and reduce functions for `divan-server`, which starts it.
@main
struct ScriptMain {
    /// The socket to the node.
    static let descriptor: Int32 = 3

    static let usage = """
        usage: divan-script [--memory MIB] [--unfiltered]
          Runs the map and reduce functions of views for divan-server, which starts this program and
          talks to it over a socket on descriptor \(descriptor). It is of no use by hand.
          --memory MIB   memory that the functions may use together (\(memoryDefault); 16 to 65536)
          --unfiltered   run functions although the kernel does not filter system calls

        """

    /// MiB beside the 50 MiB of the engine itself.
    static let memoryDefault: UInt64 = 256

    static func main() {
        let arguments = CommandLine.arguments.dropFirst()
        if arguments.contains("--help") || arguments.contains("-h") {
            ProcessEnd.print(usage)
            ProcessEnd.exit(0)
        }
        let isFilterOptional = arguments.last == "--unfiltered"
        guard let memory = memory(isFilterOptional ? arguments.dropLast() : arguments) else {
            ProcessEnd.report(usage)
            ProcessEnd.exit(64)
        }
        guard let socket = InheritedSocket(descriptor: descriptor) else {
            ProcessEnd.report(
                "divan-script: descriptor \(descriptor) is not a socket. divan-server starts this "
                    + "program when a bucket has views; there is no need to start it by hand."
            )
            ProcessEnd.exit(64)
        }
        ConfinedWorker.run(socket, memoryBytes: memory << 20, isFilterOptional: isFilterOptional)
    }

    /// The functions' memory in MiB; nil if the arguments are invalid.
    private static func memory(_ arguments: ArraySlice<String>) -> UInt64? {
        switch arguments.count {
        case 0: return memoryDefault
        case 2 where arguments.first == "--memory":
            return arguments.last.flatMap { UInt64($0) }.flatMap { 16...65_536 ~= $0 ? $0 : nil }
        default: return nil
        }
    }
}
