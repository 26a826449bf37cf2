// Two engines of one process, in C++: one owns memory, the other writes into it and reads it back.
//
//   c++ -std=c++17 pair.cpp -o pair $(pkg-config --cflags --libs transfer_engine) && ./pair
#include <chrono>
#include <cstring>
#include <iostream>
#include <vector>

#include "te.hpp"

using namespace std::chrono_literals;

static void run() {
    te::Options here;
    here.name = "127.0.0.1";

    te::Engine owner(here);
    std::vector<unsigned char> theirs(16 << 20);
    auto published = owner.register_memory(theirs.data(), theirs.size());

    te::Engine engine(here);
    std::vector<unsigned char> ours(2 * theirs.size());
    for (std::size_t place = 0; place < theirs.size(); ++place) {
        ours[place] = static_cast<unsigned char>(place * 7);
    }
    auto registered = engine.register_memory(ours.data(), ours.size());

    segment_id_t segment = engine.open(owner.address());
    std::uint64_t at = engine.first_buffer(owner.address());

    // One call that waits.
    auto write = te::Request::write(ours.data(), segment, at, theirs.size());
    std::uint64_t moved = engine.transfer({write}, 30s);

    // A batch that is waited for later, with a notification when all is in place.
    auto back = te::Request::read(ours.data() + theirs.size(), segment, at, theirs.size());
    te::Batch batch = engine.batch(1);
    batch.submit({back}, {"read", "all of it"});
    moved += batch.wait(30s);
    if (std::memcmp(ours.data(), ours.data() + theirs.size(), theirs.size()) != 0) {
        throw std::runtime_error("the bytes differ");
    }
    for (const te::Notify &notify : owner.take_notifies()) {
        std::cout << "owner: notified: " << notify.name << ", " << notify.message << "\n";
    }

    // What goes wrong is thrown, with all that is known of it.
    try {
        engine.transfer({te::Request::write(ours.data(), segment, at + theirs.size(), 4096)}, 30s);
        throw std::runtime_error("a write outside of the peer's memory passed");
    } catch (const te::Error &error) {
        std::cout << "refused, as it should be: " << error.what() << "\n";
    }
    std::cout << "ok: " << moved << " bytes moved" << std::endl;
}

int main() {
    try {
        run();
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
    return 0;
}
